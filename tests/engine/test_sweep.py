"""Sweeps: nothing can sit in a state that no rule moves on from."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mediamill.db.connection import Connection
from mediamill.engine.claim import claim_with_chores
from mediamill.engine.model import NewJob
from mediamill.engine.recovery import sweep, unknown_claims
from mediamill.engine.recovery.exhausted import fail_exhausted
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.sweep import (
    SWEEP,
    do_waiting_chores,
    note_server_start,
    run_chores,
)
from mediamill.engine.recovery.unknown_claims import return_unheard
from mediamill.engine.rules import Engine
from mediamill.engine.watch import counters
from mediamill.engine.workers import register_worker
from tests.engine.conftest import Bench

LONG_AGO = 100_000


async def enqueue_many(bench: Bench, count: int) -> None:
    async with bench.database.transaction() as connection:
        await bench.enqueuer.enqueue_jobs(connection, [NewJob("test.plain") for _ in range(count)])


async def states(bench: Bench) -> dict[str, int]:
    async with bench.database.connection() as connection:
        rows = await connection.fetch(
            "select state, count(*) from jobs group by 1 union all select 'dead', count(*) from dead_jobs"
        )
    return {row[0]: row[1] for row in rows if row[1]}


@pytest.mark.spec("E8")
async def test_expired_claims_go_back_marked_and_counted_fifty_at_a_time(bench: Bench) -> None:
    await enqueue_many(bench, 120)
    await bench.claim(amount=120)
    await bench.run("update jobs set lease_expires_at = now() - interval '1 day'")
    counts = []
    for _ in range(4):
        async with bench.database.transaction() as connection:
            counts.append(await release_expired(connection, bench.engine))
    assert counts == [50, 50, 20, 0]
    assert await states(bench) == {"queued": 120}
    assert await bench.one("select count(*) from jobs where error = 'stale_processing_requeued'") == 120
    assert (
        await bench.one("select count(*) from jobs where lease_expires_at is null and claimed_at is null")
        == 120
    )
    async with bench.database.connection() as connection:
        assert (await counters(connection))["stale_recovered"] == 120


@pytest.mark.spec("E8")
async def test_queued_jobs_whose_attempts_are_used_up_are_failed_fifty_at_a_time(bench: Bench) -> None:
    await enqueue_many(bench, 120)
    await bench.run("update jobs set attempts = max_attempts")
    counts = []
    for _ in range(4):
        async with bench.database.transaction() as connection:
            counts.append(await fail_exhausted(connection, bench.engine))
    assert counts == [50, 50, 20, 0]
    assert await bench.one("select count(*) from dead_jobs where reason = 'max_attempts_exhausted'") == 120


@pytest.mark.spec("E8")
async def test_expired_claims_whose_attempts_are_used_up_are_failed(bench: Bench) -> None:
    id_ = await bench.enqueue(max_attempts=1)
    await bench.claim()
    await bench.expire(id_, LONG_AGO)
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.state(id_) == "dead"
    assert await bench.one("select reason from dead_jobs") == "max_attempts_exhausted"


@pytest.mark.spec("E8")
async def test_one_sweep_leaves_nothing_behind(bench: Bench) -> None:
    await enqueue_many(bench, 400)
    await bench.claim(amount=200)
    await bench.run("update jobs set lease_expires_at = now() - interval '1 day' where state = 'running'")
    await bench.run("update jobs set attempts = max_attempts where id % 2 = 0")
    await bench.run(
        "update jobs set state = 'scheduled', run_after = now() - interval '1 s' where state = 'queued' and id % 3 = 0"
    )
    await run_chores(bench.database, bench.engine, SWEEP)
    # A job that came due with its attempts used up is failed by the next one.
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await states(bench) == {"queued": 200, "dead": 200}


@pytest.mark.spec("E8")
async def test_a_claim_call_does_the_same_chores(bench: Bench) -> None:
    expired, due, exhausted, waits = [await bench.enqueue(owner=f"o{n}") for n in range(4)]
    await bench.run("update jobs set priority = 0 where id = $1", expired)
    assert [job.id for job in await bench.claim()] == [expired]
    await bench.expire(expired, LONG_AGO)
    await bench.run("update jobs set state = 'scheduled', run_after = now() where id = $1", due)
    await bench.run("update jobs set attempts = max_attempts where id = $1", exhausted)
    await bench.run(
        "update jobs set state = 'scheduled', run_after = now() + interval '1 hour' where id = $1", waits
    )
    next_due = await do_waiting_chores(bench.database, bench.engine)
    found = [await bench.state(id_) for id_ in (expired, due, exhausted, waits)]
    assert found == ["queued", "queued", "dead", "scheduled"]
    assert next_due is not None


@pytest.mark.spec("E8")
async def test_a_row_that_somebody_works_on_is_skipped_not_waited_for(bench: Bench) -> None:
    await enqueue_many(bench, 2)
    first, second = await bench.claim(amount=2)
    await bench.run("update jobs set lease_expires_at = now() - interval '1 day'")
    async with bench.database.transaction() as busy:
        await busy.execute("select from jobs where id = $1 for update", first.id)
        await run_chores(bench.database, bench.engine, SWEEP)
        assert await bench.state(second.id) == "queued"
        assert await bench.state(first.id) == "running"


@pytest.mark.spec("E9")
@pytest.mark.parametrize(
    ("worker_state", "expired_seconds", "released"),
    [
        ("idle", -60, False),
        ("offline", -60, False),
        ("idle", 10, False),
        ("busy", 10, False),
        ("offline", 10, True),
        ("idle", 901, True),
    ],
)
async def test_a_claim_is_released_when_expired_and_its_worker_offline_or_when_it_is_stale(
    bench: Bench, worker_state: str, expired_seconds: int, released: bool
) -> None:
    id_ = await bench.enqueue()
    await bench.claim()
    await bench.run("update workers set state = $1, heartbeat_at = now()", worker_state)
    await bench.expire(id_, expired_seconds)
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.state(id_) == ("queued" if released else "running")


@pytest.mark.spec("E9")
async def test_the_stale_limit_is_the_pools_own(bench: Bench) -> None:
    id_ = await bench.enqueue()
    await bench.claim()
    await bench.run("update pools set stale_seconds = 5000")
    await bench.expire(id_, 4000)
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.state(id_) == "running"
    await bench.expire(id_, 5001)
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.state(id_) == "queued"


@pytest.mark.spec("E9")
async def test_remote_workers_have_a_grace_period_after_the_server_started(bench: Bench) -> None:
    engine = replace(bench.engine, startup_grace_seconds=120)
    id_ = await bench.enqueue()
    async with bench.database.connection() as connection:
        remote = await register_worker(connection, name="far", type_="remote")
    (job,) = await bench.claim()
    await bench.run("update jobs set worker_id = $1", remote)
    await bench.expire(id_, LONG_AGO)
    await bench.run("update workers set heartbeat_at = now() - interval '1 day' where id = $1", remote)
    await note_server_start(bench.database)
    await run_chores(bench.database, engine, SWEEP)
    assert await bench.state(id_) == "running"
    assert await bench.one("select state from workers where id = $1", remote) == "active"
    await bench.run("update counters set value = value - 121000000 where name = 'server_started_at'")
    await run_chores(bench.database, engine, SWEEP)
    assert await bench.state(id_) == "queued"
    assert await bench.one("select state from workers where id = $1", remote) == "offline"
    assert job.id == id_


async def test_a_chore_that_fails_does_not_keep_the_others_from_running(bench: Bench) -> None:
    left = [2, 1, 0]

    async def broken(_connection: Connection, _engine: Engine) -> int:
        raise RuntimeError("a defect")

    async def works(_connection: Connection, _engine: Engine) -> int:
        return left.pop(0)

    async def unavailable(_connection: Connection, _engine: Engine) -> int:
        raise OSError("the database is unavailable")

    assert await run_chores(bench.database, bench.engine, (broken, works)) == 3
    assert left == []
    with pytest.raises(OSError, match="unavailable"):
        await run_chores(bench.database, bench.engine, (unavailable, works))


async def test_the_sweep_runs_in_its_turn_and_outlives_errors(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round ends with a sleep of no time; the fourth one never ends."""
    ran: list[object] = []
    rounds = asyncio.Event()
    errors = [None, OSError("unavailable"), RuntimeError("a defect")]

    async def lost(*_: object) -> int:
        ran.append("sessions")
        if len(ran) > 20 or not errors:
            rounds.set()
            await asyncio.Event().wait()
        if (error := errors.pop(0)) is not None:
            raise error
        return 0

    async def chores(_database: object, _engine: object, which: object) -> int:
        ran.append(which)
        return 0

    monkeypatch.setattr(sweep, "release_lost_sessions", lost)
    monkeypatch.setattr(sweep, "run_chores", chores)
    monkeypatch.setattr(sweep, "SESSIONS_SECONDS", 0)
    task = asyncio.create_task(sweep.sweep_forever(bench.database, bench.engine))
    await asyncio.wait_for(rounds.wait(), 60)
    task.cancel()
    assert ran == ["sessions", SWEEP, sweep.JANITOR, "sessions", "sessions", "sessions"]


async def claim_with(bench: Bench, amount: int = 1) -> tuple[list[int], datetime | None]:
    claimer, pool = await bench.worker("b"), await bench.pool()
    async with bench.database.connection() as connection:
        jobs, due = await claim_with_chores(bench.database, connection, bench.engine, claimer, pool, amount)
    return [job.id for job in jobs], due


async def test_a_claim_that_finds_nothing_puts_right_what_it_can_and_claims_again(bench: Bench) -> None:
    id_ = await bench.enqueue(max_attempts=5)
    await bench.claim()
    assert await claim_with(bench) == ([], None)
    await bench.run("update jobs set lease_expires_at = now() - interval '1 day'")
    assert await claim_with(bench, 0) == ([], None)  # looked for chores a moment ago, and wants nothing
    assert await bench.state(id_) == "running"
    assert await claim_with(bench) == ([id_], None)


async def test_a_claim_looks_for_chores_once_a_second_and_says_when_a_job_is_due(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    await bench.enqueue(run_after=due)
    ids = [await bench.enqueue() for _ in range(3)]
    claimer = await bench.worker("b")
    assert await claim_with(bench) == (ids[:1], due)
    assert claimer.looked_at > 0
    assert await claim_with(bench) == (ids[1:2], None)  # no look
    claimer.looked_at -= 1.0
    assert await claim_with(bench) == (ids[2:], due)
    assert await claim_with(bench) == ([], due)


@pytest.mark.parametrize("valid", [True, False])
async def test_a_claim_whose_answer_was_lost_goes_back_and_is_no_attempt_unless_its_lease_is_over(
    bench: Bench, valid: bool
) -> None:
    known = await bench.enqueue(max_attempts=5)
    id_ = await bench.enqueue(max_attempts=5, payload={"a": 1}, subject_id="s")
    jobs = await bench.claim(amount=2)
    if not valid:
        await bench.expire(id_)
    worker = jobs[0].worker_id
    await return_unheard(bench.database, bench.engine, worker, [known, id_], 0)
    await return_unheard(bench.database, bench.engine, worker, [known], 3600)
    assert await bench.state(id_) == "running"
    await return_unheard(bench.database, bench.engine, worker, [known], 0)
    assert (await bench.state(known), await bench.state(id_)) == ("running", "queued")
    assert await bench.one("select attempts from jobs where id = $1", id_) == (0 if valid else 1)


async def test_all_that_a_worker_does_not_know_of_goes_back_in_batches(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_claims, "BATCH", 2)
    await enqueue_many(bench, 5)
    jobs = await bench.claim(amount=5)
    assert await unknown_claims.release_unknown(bench.database, bench.engine, jobs[0].worker_id) == 5
    assert await states(bench) == {"queued": 5}
