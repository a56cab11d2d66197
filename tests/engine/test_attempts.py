"""Every claim ends in exactly one way, and is counted once, with how long it took."""

from __future__ import annotations

import asyncio

import pytest

from mediamill.engine.attempts import BOUNDS, Outcome, count_claims, list_ended
from mediamill.engine.recovery.release import release_claims
from mediamill.engine.settle import Elsewhere, hand_back, reroute_job
from mediamill.engine.store import recovery
from mediamill.errors import Wait
from tests.engine.conftest import Bench


async def ended(bench: Bench) -> dict[str, int]:
    """How many attempts ended in each way."""
    async with bench.database.connection() as connection:
        found = await list_ended(connection)
    counts: dict[str, int] = {}
    for each in found:
        assert sum(each.buckets) == each.count
        counts[each.outcome] = counts.get(each.outcome, 0) + each.count
    return counts


async def claims(bench: Bench) -> int:
    async with bench.database.connection() as connection:
        return sum((await count_claims(connection)).values())


@pytest.mark.spec("E33")
async def test_a_claim_is_counted_once_however_its_attempt_ends(bench: Bench) -> None:
    for number in range(9):
        kind = ("test.plain", "test.subject", "test.delivered")[number % 3]
        await bench.enqueue(kind, subject_id=f"s{number}", max_attempts=2)
    jobs = await bench.claim(amount=9)
    assert (await claims(bench), await ended(bench)) == (9, {})
    await bench.finish(*jobs[:3])
    assert await claims(bench) == 9
    await bench.fail(jobs[3])
    await bench.fail(jobs[4], permanent=True)
    await bench.fail(jobs[5], wait=Wait())
    await hand_back(bench.database, bench.engine, jobs[6].worker_id, [jobs[6]])
    async with bench.database.transaction() as connection:
        await reroute_job(connection, bench.engine, Elsewhere(jobs[7], "audio/ogg"))
    async with bench.database.transaction() as connection:
        rows = await recovery.lock_claims_of_worker.rows(connection, worker_id=jobs[8].worker_id, batch=10)
        assert [row["id"] for row in rows] == [jobs[8].id]
        await release_claims(connection, bench.engine, rows)
    assert await ended(bench) == {
        "completed": 3,
        "failed": 1,
        "dead": 1,
        "put_off": 1,
        "handed_back": 1,
        "rerouted": 1,
        "released": 1,
    }
    assert await claims(bench) == 9


async def test_a_word_that_comes_too_late_counts_nothing(bench: Bench) -> None:
    await bench.enqueue()
    (job,) = await bench.claim()
    await bench.finish(job)
    assert (await bench.finish(job)).lost == {job.id}
    assert not await bench.fail(job)
    assert (await claims(bench), await ended(bench)) == (1, {"completed": 1})


async def test_what_waits_and_is_buried_was_no_attempt(bench: Bench) -> None:
    await bench.enqueue()
    await bench.run("update jobs set attempts = max_attempts")
    async with bench.database.transaction() as connection:
        from mediamill.engine.recovery.exhausted import fail_exhausted

        assert await fail_exhausted(connection, bench.engine) == 1
    assert await ended(bench) == {}


async def test_how_long_an_attempt_took_is_told_by_the_bounds(bench: Bench) -> None:
    for _ in range(2):
        await bench.enqueue()
    jobs = await bench.claim(amount=2)
    await bench.run("update jobs set claimed_at = now() - interval '20 seconds' where id = $1", jobs[0].id)
    await bench.finish(*jobs)
    async with bench.database.connection() as connection:
        (completed,) = await list_ended(connection)
    assert (completed.kind, completed.pool, completed.outcome) == ("test.plain", "default", Outcome.COMPLETED)
    assert completed.buckets[BOUNDS.index(60)] == 1
    assert 20 <= completed.seconds < 120


async def test_the_bounds_of_the_code_are_those_of_the_database(bench: Bench) -> None:
    for number, bound in enumerate(BOUNDS):
        found = [
            await bench.one("select attempt_bucket(make_interval(secs => $1))", bound + step)
            for step in (-0.001, 0.001)
        ]
        assert found == [number, number + 1], bound


async def test_many_that_end_at_once_are_all_counted(bench: Bench) -> None:
    for _ in range(40):
        await bench.enqueue()
    jobs = await bench.claim(amount=40)
    await asyncio.gather(*(bench.finish(job) for job in jobs))
    assert await ended(bench) == {"completed": 40}
