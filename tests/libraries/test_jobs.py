"""How assets move with their jobs: failures are counted, final ones are final, and nobody is blamed for a mount."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.engine.model import Moved, failure_of
from mediamill.engine.settle import Fate, fail_job
from mediamill.libraries.jobs import give_up, library_kinds, note_retry, take_back
from mediamill.libraries.look import show_library
from mediamill.settings import Settings
from mediamill.staging.inputs import RootAwayError
from tests.libraries.played import IMAGES, TAGS, Ground, ground
from tests.libraries.tagged import asset, proxied
from tests.outages import let_time_pass

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


async def put_off(ground: Ground, error: str, pool: str = IMAGES) -> None:
    """The next job cannot have what it needs."""
    await ground.run("update jobs set run_after = now(), state = 'queued'")
    (job,) = await ground.claim(pool=pool)
    lane = await ground.pool(job.pool)
    async with ground.database.transaction() as connection:
        failure = failure_of(RootAwayError(error))
        assert await fail_job(connection, ground.engine, job, failure, lane) is Fate.AGAIN


async def shown(ground: Ground) -> dict[str, Any]:
    async with ground.database.connection() as connection:
        return await show_library(connection, "photos")


@pytest.mark.spec("L2")
async def test_a_share_that_is_away_costs_no_try_however_long_and_the_library_says_so(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    assert (await shown(ground))["warning"] is None
    for _ in range(20):
        await put_off(ground, AWAY)
    found = await asset(ground)
    assert (found["status"], found["retry_count"], found["error"]) == ("pending", 0, AWAY)
    job = "select (state, attempts, run_after > now() + interval '30 seconds')::text from jobs where id = $1"
    assert await ground.one(job, found["job_id"]) == "(scheduled,0,t)"
    assert await ground.counts("dead_jobs") == [0]
    assert (await shown(ground))["warning"] == AWAY


@pytest.mark.spec("L2")
async def test_a_share_that_is_back_is_gone_on_with_and_the_warning_ends(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    await put_off(ground, AWAY)
    await ground.run("update jobs set run_after = now(), state = 'queued'")
    (job,) = await ground.claim(pool=IMAGES)
    await ground.play_image(job)
    assert (await asset(ground))["status"] == "proxied"
    await ground.run("update libraries set warned_at = now() - interval '4 minutes'")  # nobody said it again
    assert (await shown(ground))["warning"] is None


async def test_a_library_that_somebody_holds_is_not_waited_for_to_be_warned(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    async with ground.database.transaction() as holder:
        await holder.execute("select from libraries for update")
        await put_off(ground, AWAY)
    assert (await shown(ground))["warning"] is None
    await put_off(ground, AWAY)
    assert (await shown(ground))["warning"] == AWAY


async def test_a_job_that_nobody_came_for_lets_its_asset_wait_again(ground: Ground) -> None:
    from mediamill.engine.recovery.janitor import bury_forgotten

    await ground.library(images=1)
    await ground.feed()
    await let_time_pass(ground.database, 24 * 365, served=True)
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


def test_every_kind_of_job_is_local_and_goes_back_where_it_came_from() -> None:
    kinds = {kind.name: kind for kind in library_kinds(Settings())}
    assert set(kinds) == {"library.image", "library.video", "library.tag"}
    for kind in kinds.values():
        assert kind.local
        assert kind.description
        assert kind.on_completed is not None
        assert (kind.on_failed, kind.on_released, kind.on_requeued) == (give_up, note_retry, take_back)
        assert kind.requeue_fix == "`mediamill asset retry` lets a failed asset wait for a new job"
    tells = {name for name, kind in kinds.items() if kind.on_progress is not None}
    assert tells == {"library.video", "library.tag"}
    assert [name for name, kind in kinds.items() if kind.keeps_files] == ["library.video"]
    assert [name for name, kind in kinds.items() if kind.on_claimed is not None] == ["library.video"]


@pytest.mark.spec("L4", "L22")
async def test_an_image_is_kept_with_what_makes_sense_of_its_result(ground: Ground) -> None:
    await ground.library(images=6)
    await ground.feed()
    jobs = sorted(await ground.claim(pool=IMAGES, amount=6), key=lambda job: str(job.subject_id))
    odd: list[dict[str, Any]] = [
        {"width": 1, "height": 9_999_999, "facts": {"camera": "x"}, "taken_at": "2024-06-01T00:30:00+02:00"},
        {"width": 0, "height": 10_000_000, "facts": None, "taken_at": "yesterday"},
        {"width": "640", "height": None},
        {"digest": "AB" * 32},
        {"digest": None},
        {"files": {"preview.webp": {"path": "libraries/001/1-1-1/preview.webp"}}},
    ]
    for job, more in zip(jobs, odd, strict=True):
        await ground.finish(job, await ground.write_image(job) | more)
    columns = "id, status, width, height, facts, shown_at = '2024-06-01 00:30', retry_count"
    sql = f"select array_agg(({columns})::text order by id) from assets"
    assert await ground.one(sql) == [
        '(1,proxied,1,9999999,"{""camera"": ""x""}",t,0)',
        "(2,proxied,,,{},f,0)",
        "(3,proxied,,,{},f,0)",
        *(f"({id_},pending,,,,f,1)" for id_ in (4, 5, 6)),
    ]


@pytest.mark.spec("L2")
async def test_an_asset_says_which_step_failed_and_where_it_goes_from_there(ground: Ground) -> None:
    (tag,) = await proxied(ground)
    gone = "preview.webp is not there (any more)"
    found = []
    for kind, status, error, reason in (
        ("library.tag", "analyzing", "refused", "permanent"),
        ("library.tag", "analyzing", gone, "permanent"),
        ("library.tag", "analyzing", gone, "max_attempts_exhausted"),
        ("library.tag", "analyzing", None, "abandoned"),
        ("library.image", "pending", gone, "permanent"),
        ("library.image", "pending", "x" * 600, "permanent"),
        ("library.video", "extracting", None, "abandoned"),
        ("library.video", "extracting", None, None),
    ):
        await ground.run(
            "update assets set status = $1, job_id = $2, retry_count = 0, error = null, error_code = null",
            status,
            tag.id,
        )
        moved = Moved(tag.id, kind, "library:1", "1", 1, {}, error=error, reason=reason)
        async with ground.database.transaction() as connection:
            await give_up(connection, [moved])
        now = await asset(ground)
        found.append((now["status"], now["error_code"], now["retry_count"], len(now["error"] or "")))
    assert found == [
        ("failed", "tag_failed", 0, 7),
        ("pending", "tag_failed", 1, len(gone)),
        ("failed", "tag_failed", 1, len(gone)),
        ("proxied", "tag_failed", 0, 9),
        ("failed", "file_gone", 0, len(gone)),
        ("failed", "proxy_failed", 0, 500),
        ("pending", "proxy_failed", 0, 9),
        ("failed", "proxy_failed", 1, 6),
    ]
