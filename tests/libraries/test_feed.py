"""From assets that wait to jobs: never more than should be at hand, never twice, only for libraries that are there."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from mediamill.engine.dead import purge_dead
from mediamill.libraries.edit import pause_library, resume_library
from mediamill.libraries.feed import AT_HAND, forget_lost_jobs
from mediamill.libraries.reach import Reach
from tests.conftest import wait_until
from tests.libraries.played import IMAGES, TAGS, VIDEOS, Ground, ground
from tests.libraries.tagged import asset, proxied

__all__ = ["ground"]

MANY = AT_HAND["image"] + 500


async def jobs(ground: Ground, kind: str = "library.image") -> int:
    return int(await ground.one("select count(*) from jobs where kind = $1", kind))


@pytest.mark.spec("L2")
async def test_so_many_are_at_hand_and_more_only_when_half_of_them_are_done(ground: Ground) -> None:
    await ground.library(images=MANY)
    assert await ground.feed() == AT_HAND["image"]
    assert await ground.feed() == 0
    first = "select array_agg(subject_id::int order by id) from jobs"
    assert await ground.one(first) == list(range(MANY, MANY - AT_HAND["image"], -1))  # the newest
    done = "update assets set job_id = null, status = 'failed' where id > $1"
    await ground.run("delete from jobs where subject_id::int > $1", MANY - 400)
    await ground.run(done, MANY - 400)
    assert await ground.feed() == 0
    await ground.run("delete from jobs where subject_id::int > $1", MANY - 600)
    await ground.run(done, MANY - 600)
    assert await ground.feed() == 500
    assert await jobs(ground) == 900


@pytest.mark.spec("L2")
async def test_two_that_feed_at_once_feed_no_asset_twice_and_no_more_than_one_would(ground: Ground) -> None:
    await ground.library(images=MANY, videos=30)
    fed = await asyncio.gather(*(ground.feed() for _ in range(6)))
    assert sum(fed) == await ground.one("select count(*) from jobs")
    assert await jobs(ground) == AT_HAND["image"]
    assert await jobs(ground, "library.video") == AT_HAND["video"]
    assert await ground.one("select count(distinct subject_id) from jobs") == sum(fed)
    named = "select count(*) from assets a join jobs j on j.id = a.job_id and j.subject_id = a.id::text"
    assert await ground.one(named) == sum(fed)


async def test_every_library_gets_its_share(ground: Ground) -> None:
    large, small = await ground.library("Large", images=MANY), await ground.library("Small", images=3)
    await ground.feed()
    owners = "select count(*) from jobs where owner = $1"
    assert await ground.one(owners, f"library:{large}") == AT_HAND["image"]
    assert await ground.one(owners, f"library:{small}") == 3
    claimed = await ground.claim(pool=IMAGES, amount=6)
    assert sum(job.owner == f"library:{small}" for job in claimed) == 3


@pytest.mark.spec("L1", "L14")
async def test_a_library_that_is_paused_or_in_the_trash_is_not_fed(ground: Ground) -> None:
    await ground.library(images=1)
    async with ground.database.transaction() as connection:
        await pause_library(connection, "photos")
    assert await ground.feed() == 0
    async with ground.database.transaction() as connection:
        await resume_library(connection, "photos")
    await ground.remove()
    assert await ground.feed() == 0
    await ground.restore()
    assert await ground.feed() == 1


async def test_pausing_holds_what_is_at_hand(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.feed()
    async with ground.database.transaction() as connection:
        await pause_library(connection, "photos")
    assert await ground.claim(pool=IMAGES) == []
    async with ground.database.transaction() as connection:
        await resume_library(connection, "photos")
    assert len(await ground.claim(pool=IMAGES, amount=2)) == 2


@pytest.mark.spec("L10")
async def test_a_folder_that_is_away_is_not_fed_but_what_has_proxies_is_tagged(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.feed()
    (first, _) = await ground.claim(pool=IMAGES, amount=2)
    await ground.play_image(first)
    await ground.run("update assets set job_id = null where status = 'pending'")
    (ground.root / "Photos").rename(ground.root / "elsewhere")
    assert await ground.feed() == 1
    assert await jobs(ground, "library.tag") == 1
    (ground.root / "elsewhere").rename(ground.root / "Photos")
    assert await ground.feed() == 1


async def test_a_folder_that_hangs_is_away_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, asked = threading.Event(), []

    def is_dir(path: Path) -> bool:
        """The system, as with a network that does not answer."""
        asked.append(path)
        return answered.wait(60)

    monkeypatch.setattr(Path, "is_dir", is_dir)
    reach = Reach(seconds=0.01)
    for _ in range(3):
        assert not await reach.is_there(str(tmp_path))
    assert len(asked) <= 1, "nobody asks again while it hangs"
    answered.set()

    async def is_back() -> bool:
        return await reach.is_there(str(tmp_path))

    await wait_until(is_back)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
async def test_a_folder_that_is_not_for_us_is_away(tmp_path: Path) -> None:
    (tmp_path / "closed" / "inside").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    assert not await Reach().is_there(str(tmp_path / "closed" / "inside"))


@pytest.mark.spec("L3")
async def test_a_file_that_changed_while_its_job_ran_waits_for_another_one(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    (old,) = await ground.claim(pool=IMAGES)
    await ground.run("update assets set status = 'pending', job_id = null, size = 2")  # so does a scan
    assert await ground.feed() == 1
    await ground.play_image(old)
    assert (await asset(ground))["output"] is None
    (new,) = await ground.claim("b", pool=IMAGES)
    await ground.play_image(new)
    found = await asset(ground)
    assert found["status"] == "proxied"
    assert found["output"].startswith(f"{new.id}-")


async def test_assets_whose_jobs_were_purged_wait_again(ground: Ground) -> None:
    await ground.library(images=1, videos=1)
    await ground.feed()
    await ground.run("delete from jobs")
    assert await forget_lost_jobs(ground.database) == 2
    assert await forget_lost_jobs(ground.database) == 0
    assert await ground.one("select count(*) from assets where status = 'pending' and job_id is null") == 2
    assert await ground.feed() == 2
    (job,) = await ground.claim(pool=VIDEOS)
    assert job.subject_id == "2"


async def test_jobs_that_are_just_being_fed_are_not_taken_for_lost(ground: Ground) -> None:
    await ground.library(images=200)

    async def feed_and_lose() -> None:
        for _ in range(10):
            await ground.feed()
            await ground.run("delete from jobs where id % 3 = 0")

    async def forget() -> None:
        for _ in range(40):
            await forget_lost_jobs(ground.database)

    await asyncio.gather(feed_and_lose(), forget(), forget())
    await forget_lost_jobs(ground.database)
    await ground.feed()
    unnamed = "select count(*) from jobs j where not exists (select from assets a where a.job_id = j.id)"
    assert await ground.one(unnamed) == 0
    assert await ground.one("select count(*) from assets where job_id is null") == 0


async def test_a_dead_job_does_not_keep_its_asset(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.fail(job, "no", permanent=True)
    async with ground.database.transaction() as connection:
        await purge_dead(connection, [job.id])
    assert await forget_lost_jobs(ground.database) == 0
    assert (await asset(ground))["status"] == "failed"
    assert await ground.claim(pool=TAGS) == []


async def test_models_that_are_known_are_not_written_again_and_again(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.complete()
    written = "select array_agg(xmin::text order by id) from ai_models"
    before = await ground.one(written)
    assert await ground.feed() == 0
    assert await ground.one(written) == before
