"""Hold: nothing of an owner is claimed, nothing is lost, and what was done meanwhile is reaped once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.dead import requeue_dead
from mediamill.engine.deliver import deliver_results, reap_results
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.model import ClaimedJob, Failure, NewJob
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.sweep import SWEEP, run_chores
from mediamill.engine.settle import fail_job
from tests.conftest import wait_until
from tests.engine.conftest import Bench
from tests.engine.waiting import wait_until_done_or_blocked


async def hold(bench: Bench, owner: str = "bot") -> int:
    async with bench.database.transaction() as connection:
        return await hold_owner(connection, owner)


async def release(bench: Bench, owner: str = "bot") -> int:
    async with bench.database.transaction() as connection:
        return await release_owner(connection, owner)


@pytest.mark.spec("E12")
async def test_held_jobs_are_not_claimed_and_those_of_others_are(bench: Bench) -> None:
    mine = [await bench.enqueue(owner="bot") for _ in range(3)]
    later = await bench.enqueue(owner="bot", run_after=datetime.now(UTC) + timedelta(hours=1))
    other = await bench.enqueue(owner="other")
    assert await hold(bench) == 4
    assert [job.id for job in await bench.claim(amount=10)] == [other]
    assert {await bench.state(id_) for id_ in [*mine, later]} == {"held"}
    assert await hold(bench) == 0
    assert await release(bench) == 4
    assert await bench.state(later) == "scheduled"
    assert [job.id for job in await bench.claim(amount=10)] == mine


@pytest.mark.spec("E12")
async def test_a_job_enqueued_for_a_held_owner_is_held_with_or_without_a_key(bench: Bench) -> None:
    await hold(bench)
    plain, keyed = await bench.enqueue(owner="bot"), await bench.enqueue(owner="bot", idempotency_key="k")
    assert [await bench.state(plain), await bench.state(keyed)] == ["held", "held"]
    assert await bench.claim() == []
    await release(bench)
    assert {job.id for job in await bench.claim(amount=5)} == {plain, keyed}


@pytest.mark.spec("E12")
async def test_a_worker_in_flight_saves_its_result_on_the_held_job_and_it_is_delivered_once_after_release(
    bench: Bench,
) -> None:
    id_ = await bench.enqueue("test.delivered", owner="bot")
    waits = await bench.enqueue("test.delivered", owner="bot")
    (job,) = await bench.claim()
    await hold(bench)
    assert (await bench.finish(job, result='"text"')).done == {id_}
    assert await bench.state(id_) == "completed"
    assert await deliver_results(bench.database, bench.engine) == 0
    assert await bench.one("select result from jobs where id = $1", id_) == '"text"'
    await release(bench)
    counts = await asyncio.gather(*(deliver_results(bench.database, bench.engine) for _ in range(4)))
    assert sum(counts) == 1
    assert await bench.one("select count(*) from deliveries") == 1
    assert [job.id for job in await bench.claim()] == [waits]


@pytest.mark.spec("E12")
async def test_an_owner_that_comes_back_reaps_its_own_results_exactly_once(bench: Bench) -> None:
    for _ in range(20):
        await bench.enqueue("test.delivered", owner="bot")
    jobs = await bench.claim(amount=20)
    await hold(bench)
    await bench.finish(*jobs, result="1")

    async def reap() -> list[int]:
        async with bench.database.transaction() as connection:
            return [moved.job_id for moved in await reap_results(connection, ["bot"])]

    reaped = [id_ for ids in await asyncio.gather(*(reap() for _ in range(5))) for id_ in ids]
    assert sorted(reaped) == sorted(job.id for job in jobs)
    assert await reap() == []


@pytest.mark.spec("E12")
async def test_a_job_in_flight_that_fails_or_expires_becomes_held(bench: Bench) -> None:
    fails, expires = [await bench.enqueue(owner="bot") for _ in range(2)]
    first, _second = await bench.claim(amount=2)
    await hold(bench)
    await bench.fail(first)
    await bench.expire(expires, 100_000)
    await run_chores(bench.database, bench.engine, SWEEP)
    assert [await bench.state(fails), await bench.state(expires)] == ["held", "held"]
    await release(bench)
    assert await bench.state(fails) == "scheduled"
    assert await bench.state(expires) == "queued"


@pytest.mark.spec("E12")
async def test_a_release_says_that_results_wait_even_if_nothing_else_was_held(bench: Bench) -> None:
    await bench.enqueue("test.delivered", owner="bot")
    (job,) = await bench.claim()
    await hold(bench)
    await bench.finish(job, result="1")
    heard: list[str] = []
    listener = await asyncpg.connect(bench.database.url)
    await listener.add_listener("mediamill_results", lambda *args: heard.append(str(args[-1])))

    async def was_heard() -> bool:
        return bool(heard)

    try:
        await release(bench)
        await wait_until(was_heard)
    finally:
        await listener.close()


@pytest.mark.spec("E12")
async def test_a_job_that_slipped_past_a_hold_is_not_claimed_and_the_sweep_holds_it(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        id_ = await bench.enqueuer.enqueue_job(connection, NewJob("test.plain", owner="bot"))
        await hold(bench)
        await transaction.commit()
    assert await bench.state(id_) == "queued"
    assert await bench.claim() == []
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.state(id_) == "held"


async def _move(bench: Bench, connection: Connection, how: str, job: ClaimedJob | None) -> None:
    """Something that puts a job of a held owner on hold, in an open transaction."""
    if job is None:
        key = "k" if how == "key" else None
        await bench.enqueuer.enqueue_job(connection, NewJob("test.plain", owner="bot", idempotency_key=key))
    elif how == "fail":
        assert await fail_job(connection, bench.engine, job, Failure("no", False), await bench.pool())
    elif how == "expire":
        assert await release_expired(connection, bench.engine) == 1
    elif how == "hand back":
        await store.jobs.hand_back.rows(connection, ids=[job.id], tokens=[job.token], worker_id=job.worker_id)
    else:
        assert await requeue_dead(connection, bench.engine, [job.id]) == [job.id]


@pytest.mark.spec("E12")
@pytest.mark.parametrize("how", ["enqueue", "key", "fail", "expire", "hand back", "requeue"])
async def test_a_job_that_was_put_on_hold_while_its_owner_came_back_is_claimable(
    bench: Bench, how: str
) -> None:
    """The other transaction saw the hold, the release did not see its job."""
    job = None
    if how in ("fail", "expire", "hand back", "requeue"):
        await bench.enqueue(owner="bot")
        (job,) = await bench.claim()
    if how == "requeue":
        assert job is not None
        await bench.fail(job, permanent=True)
    if how == "expire":
        await bench.run("update jobs set lease_expires_at = now() - interval '1 day'")
    await hold(bench)
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await _move(bench, connection, how, job)
        releasing = asyncio.create_task(release(bench))
        await wait_until_done_or_blocked(bench, releasing)
        await transaction.commit()
    await releasing
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.one("select state from jobs") in ("queued", "scheduled")
