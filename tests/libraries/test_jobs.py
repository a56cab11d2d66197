"""How assets move with their jobs: failures are counted, final ones are final, and nobody is blamed for a mount."""

from __future__ import annotations

import pytest

from mediamill.engine.settle import Fate
from mediamill.staging.inputs import RootAwayError
from tests.libraries.played import IMAGES, TAGS, Ground, ground
from tests.libraries.test_tagging import asset, proxied

__all__ = ["ground"]

AWAY = f"{RootAwayError.TEXT}: /photos"


async def fail_again_and_again(ground: Ground, error: str, pool: str = IMAGES) -> int:
    """Until its job is dead; how many attempts that took."""
    attempts, fate = 0, Fate.AGAIN
    while fate is Fate.AGAIN:
        await ground.run("update jobs set run_after = now(), state = 'queued'")
        (job,) = await ground.claim(pool=pool)
        fate, attempts = await ground.fail(job, error), attempts + 1
    return attempts


@pytest.mark.spec("L2")
async def test_an_asset_that_fails_more_than_five_times_is_poisoned(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    assert await fail_again_and_again(ground, "the decoder crashed") == 6
    found = await asset(ground)
    assert (found["status"], found["retry_count"], found["job_id"]) == ("poisoned", 6, None)
    assert found["error"] == "the decoder crashed"
    assert await ground.feed() == 0


@pytest.mark.spec("L2")
async def test_what_is_wrong_with_the_file_itself_fails_at_once(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    assert await ground.fail(job, "the file is empty", permanent=True) is Fate.DEAD
    found = await asset(ground)
    assert (found["status"], found["retry_count"]) == ("failed", 0)


@pytest.mark.spec("L2")
async def test_success_forgets_the_failures_before_it(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    await ground.fail(job, "out of memory")
    assert (await asset(ground))["retry_count"] == 1
    await ground.run("update jobs set run_after = now(), state = 'queued'")
    (job,) = await ground.claim(pool=IMAGES)
    await ground.play_image(job)
    found = await asset(ground)
    assert (found["status"], found["retry_count"], found["error"]) == ("proxied", 0, None)


async def test_a_folder_that_is_not_mounted_costs_no_try_and_the_asset_waits_again(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    await fail_again_and_again(ground, AWAY)
    found = await asset(ground)
    assert (found["status"], found["retry_count"], found["job_id"]) == ("pending", 0, None)
    assert await ground.feed() == 1


async def test_a_name_that_reads_like_a_missing_mount_is_counted_all_the_same(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    await fail_again_and_again(ground, f"cannot read {RootAwayError.TEXT!r}.jpg")
    assert (await asset(ground))["status"] == "poisoned"


async def test_a_job_that_nobody_came_for_lets_its_asset_wait_again(ground: Ground) -> None:
    from mediamill.engine.recovery.janitor import bury_forgotten

    await ground.library(images=1)
    await ground.feed()
    await ground.run(
        "update jobs set created_at = now() - interval '1 year', run_after = now() - interval '1 year'"
    )
    async with ground.database.transaction() as connection:
        assert await bury_forgotten(connection, ground.engine) == 1
    assert (await asset(ground))["status"] == "pending"


async def test_an_image_result_that_makes_no_sense_costs_a_try(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    stolen = {"files": {"preview.webp": {"path": "libraries/002/2-9-1/preview.webp"}}, "digest": "0" * 64}
    await ground.finish(job, stolen)
    found = await asset(ground)
    assert (found["status"], found["retry_count"], found["output"]) == ("pending", 1, None)


async def test_a_tagger_that_fails_leaves_the_proxies_as_they_are(ground: Ground) -> None:
    (job,) = await proxied(ground)
    before = (await asset(ground))["output"]
    assert await ground.fail(job, "refused", permanent=True) is Fate.DEAD
    found = await asset(ground)
    assert (found["status"], found["output"]) == ("failed", before)


async def test_a_tagger_that_is_stopped_counts_nothing(ground: Ground) -> None:
    from mediamill.engine.settle import hand_back

    (job,) = await proxied(ground)
    await hand_back(ground.database, ground.engine, job.worker_id, [job])
    found = await asset(ground)
    assert (found["status"], found["retry_count"], found["job_id"]) == ("analyzing", 0, job.id)
    assert len(await ground.claim("b", pool=TAGS)) == 1
