"""The garbage collector: what is shown, at hand or young stays; the rest goes, and nothing beyond it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from mediamill.engine.hold import forget_owner
from mediamill.libraries.collect import Collected, collect_garbage, forget_vanished
from mediamill.libraries.erase import empty_trash
from mediamill.libraries.feed import forget_lost_jobs
from mediamill.libraries.model import owner_of
from tests.conftest import wait_until
from tests.libraries.played import IMAGES, VIDEOS, Ground, ground

__all__ = ["ground"]

HOUR = 3600


def make_old(*folders: Path) -> None:
    for folder in folders:
        os.utime(folder, (time.time() - 2 * HOUR,) * 2)


@pytest.mark.spec("L13", "L16")
async def test_what_assets_show_stays_and_what_nobody_names_goes(ground: Ground) -> None:
    number = await ground.library(images=2, videos=1)
    await ground.complete()
    shown = set(await ground.outputs(number))
    assert ground.folders() == shown
    asset = int(await ground.one("select min(id) from assets"))
    left = [ground.make_folder(asset, "999999-1"), ground.make_folder(12_345, "7-1")]
    make_old(*shown, *left)
    assert await collect_garbage(ground.database, ground.data) == Collected(looked_at=5, folders=2)
    assert ground.folders() == shown
    assert all((folder / "preview.webp").is_file() for folder in shown)


@pytest.mark.spec("L15", "L16")
async def test_the_files_of_an_erased_library_go_later(ground: Ground) -> None:
    await ground.library(images=2, videos=1)
    other = await ground.library("Others", images=1)
    await ground.complete()
    await ground.remove()
    await empty_trash(ground.database)
    assert len(ground.folders()) == 4
    make_old(*ground.folders())
    assert (await collect_garbage(ground.database, ground.data)).folders == 3
    assert ground.folders() == set(await ground.outputs(other))


@pytest.mark.spec("L16")
async def test_young_folders_stay(ground: Ground) -> None:
    young = ground.make_folder(5, "7-1")
    assert await collect_garbage(ground.database, ground.data) == Collected()
    assert (young / "preview.webp").is_file()


@pytest.mark.spec("L16")
async def test_links_odd_names_and_strangers_are_left_alone(ground: Ground, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"precious")
    left = ground.make_folder(1005, "7-1")
    (left / "link").symlink_to(precious)
    shard = left.parent
    (shard / "2005-7-1").symlink_to(precious)
    odd = [shard / name for name in ("notes", "1004-7-1", "1005-7", "1005-7-1-1", "-1005-7-1", "0-0-0")]
    for folder in odd:
        folder.mkdir()
    (shard / "3005-7-1").write_bytes(b"a file")
    (ground.data / "libraries" / "006").symlink_to(precious)
    (precious / "1006-7-1").mkdir()
    collected = await collect_garbage(ground.database, ground.data, older_than_seconds=0)
    assert collected == Collected(looked_at=1, folders=1)
    assert not left.exists()
    assert all(folder.is_dir() for folder in odd)
    assert (precious / "file").read_bytes() == b"precious"
    assert (precious / "1006-7-1").is_dir()
    assert (shard / "3005-7-1").is_file()
    assert (shard / "2005-7-1").is_symlink()


@pytest.mark.spec("L16")
async def test_files_that_a_worker_has_moved_but_not_told_of_are_not_touched(ground: Ground) -> None:
    number = await ground.library(images=1)
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    result = await ground.write_image(job)
    make_old(*ground.folders())
    assert (await collect_garbage(ground.database, ground.data, older_than_seconds=0)).folders == 0
    assert (await ground.finish(job, result)).done == {job.id}
    make_old(*ground.folders())
    assert (await collect_garbage(ground.database, ground.data, older_than_seconds=0)).folders == 0
    (shown,) = await ground.outputs(number)
    assert (shown / "preview.webp").is_file()


@pytest.mark.spec("L16")
async def test_a_stream_of_collectors_beside_workers_takes_nothing_that_counts(ground: Ground) -> None:
    number = await ground.library(images=30, videos=5)

    async def collect() -> None:
        while True:
            await collect_garbage(ground.database, ground.data, older_than_seconds=0)

    collecting = asyncio.create_task(collect())
    try:
        await ground.complete()
    finally:
        collecting.cancel()
    shown = await ground.outputs(number)
    assert len(shown) == 35
    assert all((folder / "preview.webp").is_file() for folder in shown)


@pytest.mark.spec("L16")
async def test_a_video_that_is_put_in_place_but_not_committed_is_not_touched(ground: Ground) -> None:
    """The rename comes first, the commit afterwards: the collector looks in between."""
    number = await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    async with ground.database.transaction() as connection:
        # Whoever settles waits for this row when it has put the folder in place, since the jobs that end come last.
        await connection.execute("lock table finished_jobs in access exclusive mode")
        settling = asyncio.create_task(ground.play_video(job))

        async def in_place() -> bool:
            return bool(ground.folders())

        await wait_until(in_place)
        make_old(*ground.folders())
        assert await ground.one("select output is null from assets")
        assert (await collect_garbage(ground.database, ground.data, 0)).folders == 0
    assert (await settling).done == {job.id}
    (shown,) = await ground.outputs(number)
    assert (shown / "clip.mp4").is_file()


@pytest.mark.spec("L16")
async def test_the_output_of_an_attempt_that_lost_its_claim_goes_when_its_job_has_ended(
    ground: Ground,
) -> None:
    number = await ground.library(images=1)
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    await ground.write_image(job)
    await ground.fail(job)
    await ground.run("update jobs set state = 'queued', run_after = now()")
    (again,) = await ground.claim("b", pool=IMAGES)
    await ground.play_image(again)
    assert len(ground.folders()) == 2
    assert (await collect_garbage(ground.database, ground.data, older_than_seconds=0)).folders == 1
    assert ground.folders() == set(await ground.outputs(number))


@pytest.mark.spec("L3", "L16")
async def test_files_that_vanished_long_ago_are_forgotten_with_all_that_was_known(ground: Ground) -> None:
    await ground.library(images=3, videos=1)
    trashed = await ground.library("Trashed", images=1)
    await ground.complete()
    await ground.remove("trashed")
    ages = "make_interval(days => case when rel_path = 'image-0000001' and library <> $1 then 29 else 31 end)"
    await ground.run(
        f"update assets set vanished_at = now() - {ages} where rel_path <> 'image-0000002'", trashed
    )
    assert await forget_vanished(ground.database, 30) == 2
    left = "select array_agg(rel_path order by library, rel_path) from assets"
    assert await ground.one(left) == ["image-0000001", "image-0000002", "image-0000001"]
    assert await ground.counts("video_scenes") == [0]
    collected = await collect_garbage(ground.database, ground.data, 0, vanished_days=30)
    assert collected == Collected(looked_at=5, folders=2)


async def test_what_a_scan_may_just_have_found_again_is_not_forgotten(ground: Ground) -> None:
    """It has read the row and is about to write; it holds the library meanwhile."""
    await ground.library(images=1)
    await ground.run("update assets set vanished_at = now() - interval '1 year'")
    async with ground.database.transaction() as connection:
        await connection.execute("select from libraries for update")
        assert await forget_vanished(ground.database, 30) == 0
    assert await forget_vanished(ground.database, 30) == 1


@pytest.mark.spec("L16")
async def test_a_folder_of_a_job_that_was_thrown_away_goes(ground: Ground) -> None:
    number = await ground.library(images=1)
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    await ground.write_image(job)
    await ground.fail(job)
    async with ground.database.transaction() as connection:
        await forget_owner(connection, owner_of(number))
    assert (await collect_garbage(ground.database, ground.data, older_than_seconds=0)).folders == 1
    assert await forget_lost_jobs(ground.database) == 1
    await ground.complete()
    assert ground.folders() == set(await ground.outputs(number))
