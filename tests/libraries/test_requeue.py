"""Dead jobs of libraries that shall run again: their assets wait for them, or they stay dead and say what to do."""

from __future__ import annotations

import pytest

from mediamill.engine.dead import OutdatedJobError, purge_dead, requeue_dead, retry_job
from mediamill.engine.model import ClaimedJob
from mediamill.engine.settle import Fate
from mediamill.libraries.retry import retry_asset
from tests.libraries.played import IMAGES, TAGS, VIDEOS, Ground, ground
from tests.libraries.tagged import asset, look, proxied

__all__ = ["ground"]

pytestmark = pytest.mark.spec("E13")


async def requeue(ground: Ground, *ids: int, kind: str | None = None) -> list[int]:
    async with ground.database.transaction() as connection:
        return await requeue_dead(connection, ground.engine, list(ids) or None, kind=kind)


async def bury(ground: Ground, pool: str = IMAGES) -> ClaimedJob:
    """The next job, which has failed for good."""
    (job,) = await ground.claim(pool=pool)
    assert await ground.fail(job, "the file is damaged", permanent=True) is Fate.DEAD
    return job


async def test_an_image_gets_its_job_again_and_is_done_by_it(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    dead = await bury(ground)
    assert (await asset(ground))["status"] == "failed"
    assert await requeue(ground, dead.id) == [dead.id]
    found = await asset(ground)
    assert (found["status"], found["job_id"], found["error"]) == ("pending", dead.id, None)
    assert await ground.feed() == 0, "it has its job"
    (job,) = await ground.claim(pool=IMAGES)
    await ground.play_image(job)
    assert (await asset(ground))["status"] == "proxied"


async def test_a_tag_job_goes_on_with_the_previews_that_are_there(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.fail(job, "refused", permanent=True)
    async with ground.database.transaction() as connection:
        await retry_job(connection, ground.engine, job.id)
    assert (await asset(ground))["status"] == "analyzing"
    (again,) = await ground.claim(pool=TAGS)
    await ground.finish(again, {"looks": [look(again)]})
    assert (await asset(ground))["status"] == "completed"


async def test_a_video_gets_its_job_again_and_no_scene_of_another_is_mixed_in(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (first,) = await ground.claim(pool=VIDEOS)
    await ground.close_scene(first, 1)
    await ground.fail(first, "no", permanent=True)
    async with ground.database.transaction() as connection:
        await retry_asset(connection, int(first.subject_id or 0))
    await ground.feed()
    (second,) = await ground.claim(pool=VIDEOS)
    await ground.close_scene(second, 1)
    await ground.fail(second, "no", permanent=True)
    assert await requeue(ground, first.id) == [first.id]
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.play_video(job, scenes=2)
    paths = "select array_agg(distinct split_part(rep_frame_path, '/', 3)) from video_scenes"
    assert await ground.one(paths) == [f"{first.subject_id}-{first.id}-0"]
    assert [folder.name for folder in await ground.outputs(1)] == [f"{first.subject_id}-{first.id}-0"]


@pytest.mark.parametrize(
    "moved_on",
    [
        "update assets set status = 'completed'",
        "update assets set job_id = 4711",
        "update assets set vanished_at = now()",
        "update libraries set deleted_at = now()",
        "delete from assets",
    ],
)
async def test_what_has_moved_on_is_refused_with_what_to_do(ground: Ground, moved_on: str) -> None:
    await ground.library(images=1)
    await ground.feed()
    dead = await bury(ground)
    await ground.run(moved_on)
    with pytest.raises(OutdatedJobError, match="moved on") as refusal:
        await requeue(ground, dead.id)
    assert "asset retry" in str(refusal.value.fix)
    assert await ground.counts("jobs", "dead_jobs") == [0, 1]
    async with ground.database.transaction() as connection:
        assert await purge_dead(connection, [dead.id]) == [dead.id]


async def test_previews_that_were_made_anew_outdate_a_tag_job(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.fail(job, "refused", permanent=True)
    await ground.run("update assets set output = '9-1'")
    with pytest.raises(OutdatedJobError):
        await requeue(ground, job.id)


async def test_of_many_those_that_are_wanted_go_back(ground: Ground) -> None:
    await ground.library(images=3)
    await ground.feed()
    dead = [await bury(ground) for _ in range(3)]
    await ground.run("update assets set status = 'completed' where id = 2")
    back = await requeue(ground, kind="library.image")
    assert back == [job.id for job in dead if job.subject_id != "2"]
    assert await ground.one("select array_agg(subject_id) from dead_jobs") == ["2"]


async def test_of_two_dead_jobs_of_one_asset_the_newer_goes_back(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    first = await bury(ground)
    async with ground.database.transaction() as connection:
        await retry_asset(connection, 1)
    await ground.feed()
    second = await bury(ground)
    assert await requeue(ground, first.id, second.id) == [second.id]
    assert (await asset(ground))["job_id"] == second.id
