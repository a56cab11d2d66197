"""Claims: atomic, in order, fair, and what they write."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mediamill.engine.claim import CHORES_SECONDS, claim_with_chores
from mediamill.engine.hold import hold_owner
from mediamill.engine.model import NewJob, Priority, WorkerState
from mediamill.engine.workers import heartbeat, register_worker
from tests.engine.conftest import Bench


@pytest.mark.spec("E2")
async def test_two_hundred_jobs_claimed_by_eight_workers_at_once_are_each_in_one_pair_of_hands(
    bench: Bench,
) -> None:
    async with bench.database.transaction() as connection:
        ids = await bench.enqueuer.enqueue_jobs(
            connection, [NewJob("test.plain", owner=f"o{n % 7}") for n in range(200)]
        )
    workers = [f"w{n}" for n in range(8)]
    for name in workers:
        await bench.worker(name)

    async def drain(name: str) -> list[int]:
        taken = []
        while jobs := await bench.claim(name, 5):
            taken += [job.id for job in jobs]
        return taken

    taken = [id_ for ids in await asyncio.gather(*map(drain, workers)) for id_ in ids]
    assert sorted(taken) == sorted(ids)


@pytest.mark.spec("E2")
async def test_jobs_of_one_owner_and_priority_come_first_in_first_out(bench: Bench) -> None:
    ids = [await bench.enqueue() for _ in range(6)]
    assert [job.id for job in await bench.claim(amount=2)] == ids[:2]
    assert [job.id for job in await bench.claim(amount=10)] == ids[2:]


@pytest.mark.spec("E1", "E2")
async def test_urgent_jobs_come_before_the_others(bench: Bench) -> None:
    low = await bench.enqueue(priority=Priority.LOW)
    normal = await bench.enqueue()
    high = await bench.enqueue(priority=Priority.HIGH)
    assert [(await bench.claim())[0].id for _ in range(3)] == [high, normal, low]


@pytest.mark.spec("E3")
async def test_a_claim_writes_who_when_and_until_when_and_a_token_that_grows(bench: Bench) -> None:
    id_ = await bench.enqueue()
    (first,) = await bench.claim("a")
    started = await bench.one("select started_at from jobs where id = $1", id_)
    lease = await bench.one("select extract(epoch from lease_expires_at - claimed_at)::float8 from jobs")
    assert lease == (await bench.pool()).lease_seconds
    assert first.attempts == 1
    await bench.fail(first)
    assert await bench.one("select worker_name from jobs where id = $1", id_) == "a"
    await bench.run("update jobs set state = 'queued'")
    (second,) = await bench.claim("b")
    assert second.attempts == 2
    assert second.token > first.token
    assert await bench.one("select started_at from jobs where id = $1", id_) == started
    await bench.finish(second)
    row = await bench.one("select row(worker_id, worker_name)::text from finished_jobs where id = $1", id_)
    assert row == f"({second.worker_id},b)"


@pytest.mark.spec("E14")
async def test_a_worker_takes_the_oldest_job_of_another_owner_first(bench: Bench) -> None:
    for _ in range(50):
        await bench.enqueue(owner="noisy")
    quiet = await bench.enqueue(owner="zz-quiet")
    later = await bench.enqueue(owner="aa-later")
    assert (await bench.claim())[0].owner == "noisy"
    assert (await bench.claim())[0].id == quiet
    assert {(await bench.claim())[0].owner, (await bench.claim())[0].owner} == {"noisy", "aa-later"}
    assert await bench.state(later) == "running"


@pytest.mark.spec("E14")
async def test_a_batch_is_shared_out_and_no_worker_idles_while_work_waits(bench: Bench) -> None:
    for owner, count in (("a", 100), ("b", 3), ("c", 100)):
        for _ in range(count):
            await bench.enqueue(owner=owner)
    jobs = await bench.claim(amount=30)
    shares = Counter(job.owner for job in jobs)
    assert shares == {"a": 10, "b": 3, "c": 10}
    rest = 0
    while jobs := await bench.claim(amount=30):
        rest += len(jobs)
    assert rest == 203 - 23


@pytest.mark.spec("E14")
async def test_more_owners_than_the_window_are_all_served(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.engine.claim.OWNER_WINDOW", 5)
    for n in range(60):
        await bench.enqueue(owner=f"o{n:03}")
    owners = [job.owner for _ in range(12) for job in await bench.claim(amount=5)]
    assert len(set(owners)) == 60


@pytest.mark.spec("E15")
async def test_a_cpu_worker_leaves_gpu_work_to_an_idle_gpu_worker_that_was_heard_lately(bench: Bench) -> None:
    await bench.run("update pools set gpu = true")
    await bench.enqueue()
    async with bench.database.connection() as connection:
        gpu = await register_worker(connection, name="gpu", capabilities={"gpu": True})
        await heartbeat(connection, gpu, state=WorkerState.IDLE)
    assert await bench.claim("cpu") == []
    await bench.run("update workers set heartbeat_at = now() - interval '61 seconds' where id = $1", gpu)
    assert len(await bench.claim("cpu")) == 1


@pytest.mark.spec("E15")
async def test_gpu_work_is_not_left_to_a_busy_gpu_worker_and_other_work_to_none(bench: Bench) -> None:
    await bench.enqueue()
    async with bench.database.connection() as connection:
        gpu = await register_worker(connection, name="gpu", capabilities={"gpu": True})
        await heartbeat(connection, gpu, state=WorkerState.IDLE)
    assert len(await bench.claim("cpu")) == 1
    await bench.run("update pools set gpu = true")
    await bench.enqueue()
    async with bench.database.connection() as connection:
        await heartbeat(connection, gpu, state=WorkerState.BUSY)
    assert len(await bench.claim("cpu")) == 1


async def test_nothing_is_claimed_for_an_amount_of_none(bench: Bench) -> None:
    await bench.enqueue()
    assert await bench.claim(amount=0) == []


@pytest.mark.spec("E2")
async def test_a_job_with_used_up_attempts_is_never_claimed(bench: Bench) -> None:
    id_ = await bench.enqueue()
    await bench.run("update jobs set attempts = max_attempts where id = $1", id_)
    assert await bench.claim() == []


async def test_a_pool_definition_decides_the_lease(bench: Bench) -> None:
    pool = replace(await bench.pool(), lease_seconds=1800)
    await bench.enqueue()
    claimer = await bench.worker()
    async with bench.database.connection() as connection:
        await claimer.claim_jobs(connection, pool, 1)
    assert (
        await bench.one("select extract(epoch from lease_expires_at - claimed_at)::float8 from jobs") == 1800
    )


async def test_a_claim_tells_the_subjects_of_all_jobs_if_one_of_them_wants_to_know(bench: Bench) -> None:
    for subject_id, kind in (("s", "test.subject"), ("p", "test.plain")):
        await bench.enqueue(kind, subject_id=subject_id)
    assert len(await bench.claim(amount=2)) == 2
    assert await bench.subject("s") == "claimed"
    refusing = await bench.enqueue("test.subject", subject_id="r", payload={"refuse": "claimed"})
    willing = await bench.enqueue("test.subject", subject_id="w")
    assert [job.id for job in await bench.claim(amount=2)] == [willing]
    assert (
        await bench.one("select (state, attempts)::text from jobs where id = $1", refusing) == "(scheduled,1)"
    )
    assert (await bench.subject("w"), await bench.subject("r")) == ("claimed", "released")


@pytest.mark.spec("E12")
async def test_a_claim_with_chores_puts_right_what_keeps_it_from_jobs_and_says_when_the_next_is_due(
    bench: Bench,
) -> None:
    async def claim(amount: int = 5) -> tuple[list[int], datetime | None]:
        async with bench.database.connection() as connection:
            jobs, due_at = await claim_with_chores(
                bench.database, connection, bench.engine, claimer, await bench.pool(), amount
            )
        return [job.id for job in jobs], due_at

    claimer = await bench.worker()
    async with bench.database.transaction() as connection:
        slipped = await bench.enqueuer.enqueue_job(connection, NewJob("test.plain", owner="bot"))
        async with bench.database.transaction() as other:
            await hold_owner(other, "bot")
    assert await claim() == ([], None)
    assert await bench.state(slipped) == "held"
    later = await bench.enqueue(run_after=datetime.now(UTC) + timedelta(hours=1))
    claimed, due_at = await claim()
    assert claimed == []
    assert due_at == await bench.one("select run_after from jobs where id = $1", later)
    claimer.looked_at = time.monotonic()
    now = await bench.enqueue()
    assert await claim(0) == ([], None)
    assert await claim() == ([now], None), "chores wait for a second where there are jobs"
    claimer.looked_at -= CHORES_SECONDS
    last = await bench.enqueue()
    assert await claim() == ([last], due_at)
    assert time.monotonic() - claimer.looked_at < CHORES_SECONDS


@pytest.mark.spec("E3", "E21", "E31")
async def test_a_claim_makes_its_worker_busy_with_the_job_at_hand(bench: Bench) -> None:
    ids = [await bench.enqueue() for _ in range(3)]
    now = "select row(state, current_job_id)::text from workers"
    (first,) = await bench.claim()
    assert await bench.one(now) == f"(busy,{ids[0]})"
    (second,) = await bench.claim()
    assert await bench.one(now) == f"(busy,{ids[0]})", "it still works on the first"
    await bench.fail(first)  # it waits for another attempt
    await bench.finish(second)
    await bench.claim()
    assert await bench.one(now) == f"(busy,{ids[2]})"
    told = "select json_agg(data ->> 'state') from events where topic = 'worker.status'"
    assert json.loads(await bench.one(told)) == ["busy"]


@pytest.mark.spec("E3", "E21")
async def test_a_claim_that_is_undone_or_brings_nothing_leaves_its_worker_as_it_was(bench: Bench) -> None:
    now = "select row(state, current_job_id)::text from workers"
    assert await bench.claim() == []
    assert await bench.one(now) == "(active,)"
    await bench.enqueue()
    claimer, pool = await bench.worker(), await bench.pool()
    async with bench.database.connection() as connection:
        undone = connection.transaction()
        await undone.start()
        assert len(await claimer.claim_jobs(connection, pool, 1)) == 1
        await undone.rollback()
    assert await bench.one(now) == "(active,)"
    await bench.run("update workers set state = 'paused'")
    assert len(await bench.claim()) == 1
    assert await bench.one(now) == "(paused,)"
