"""Races of claims: against each other, against expiry, sweeps and holds."""

from __future__ import annotations

import asyncio

import pytest

from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.model import ClaimedJob, NewJob
from mediamill.engine.recovery.sweep import SWEEP, run_chores
from mediamill.engine.settle import Finish, finish_plain_jobs
from tests.engine.conftest import Bench
from tests.engine.waiting import wait_for_blocked
from tests.races.conftest import ROUNDS


async def whereabouts(bench: Bench, id_: int) -> list[str]:
    """Every place where a job is; more than one would be a job settled twice, none a job lost."""
    async with bench.database.connection() as connection:
        rows = await connection.fetch(
            "select state from jobs where id = $1 union all select 'finished' from finished_jobs where id = $1 "
            "union all select 'dead' from dead_jobs where id = $1",
            id_,
        )
    return [row[0] for row in rows]


async def finish_plain(bench: Bench, job: ClaimedJob) -> bool:
    async with bench.database.connection() as connection:
        settled = await finish_plain_jobs(connection, job.worker_id, [Finish(job, '"done"')])
    return job.id in settled.done


@pytest.mark.spec("E2")
async def test_one_job_and_many_claims_at_once_is_in_one_pair_of_hands_every_time(bench: Bench) -> None:
    workers = [f"w{n}" for n in range(8)]
    for name in workers:
        await bench.worker(name)
    for _ in range(ROUNDS):
        id_ = await bench.enqueue()
        claims = [job for jobs in await asyncio.gather(*map(bench.claim, workers)) for job in jobs]
        assert [job.id for job in claims] == [id_]
        holder = await bench.one("select row(worker_id, token, attempts)::text from jobs")
        assert holder == f"({claims[0].worker_id},{claims[0].token},1)"
        assert await finish_plain(bench, claims[0])


@pytest.mark.spec("E2")
async def test_a_claim_passes_over_a_job_whose_claim_is_not_committed_yet(bench: Bench) -> None:
    first, second = await bench.enqueue(), await bench.enqueue()
    a, pool = await bench.worker("a"), await bench.pool()
    await bench.worker("b")
    async with bench.database.transaction() as connection:
        (held,) = await a.claim_jobs(connection, pool, 1)
        assert held.id == first
        assert [job.id for job in await bench.claim("b", 5)] == [second]
        assert await bench.claim("b") == []
    assert await whereabouts(bench, first) == ["running"]


@pytest.mark.spec("E2")
async def test_a_claim_that_is_rolled_back_leaves_the_job_to_the_next(bench: Bench) -> None:
    id_ = await bench.enqueue()
    a, pool = await bench.worker("a"), await bench.pool()
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        (lost,) = await a.claim_jobs(connection, pool, 1)
        await transaction.rollback()
    (job,) = await bench.claim("b")
    assert (job.id, job.attempts) == (id_, 1)
    assert not await finish_plain(bench, lost)
    assert await finish_plain(bench, job)


@pytest.mark.spec("E5")
@pytest.mark.parametrize("kind", ["test.plain", "test.subject"])
async def test_completion_after_expiry_and_takeover_at_once_is_won_by_the_new_holder(
    bench: Bench, kind: str
) -> None:
    await bench.worker("new")
    for round_ in range(ROUNDS // 2):
        id_ = await bench.enqueue(kind, subject_id=f"s{round_}")
        (old,) = await bench.claim("old")
        await bench.expire(id_, 100_000)
        late, _, taken = await asyncio.gather(
            bench.finish(old, result='"late"'),
            run_chores(bench.database, bench.engine, SWEEP),
            bench.claim("new"),
        )
        assert late.lost == {id_}
        (new,) = taken or await bench.claim("new")
        assert (await bench.finish(new, result='"new"')).done == {id_}
        assert await whereabouts(bench, id_) == ["finished"]
        assert await bench.one("select result from finished_jobs where id = $1", id_) == '"new"'


@pytest.mark.spec("E5", "E8")
@pytest.mark.parametrize("kind", ["test.plain", "test.subject", "test.delivered"])
async def test_of_a_sweep_and_a_completion_exactly_one_wins(bench: Bench, kind: str) -> None:
    """The lease runs out while both are on their way: whoever locks the row first decides."""
    wins = {"completion": 0, "sweep": 0}
    for round_ in range(ROUNDS):
        id_ = await bench.enqueue(kind, subject_id=f"s{round_}")
        (job,) = await bench.claim()
        # Open transactions keep their own time: for this completion the lease still holds.
        async with bench.database.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("select now()")
            await bench.run("update workers set state = 'offline'")
            await bench.run("update jobs set lease_expires_at = clock_timestamp() where id = $1", id_)

            async def complete() -> bool:
                settled = await finish_plain_jobs(connection, job.worker_id, [Finish(job)])  # noqa: B023
                await transaction.commit()  # noqa: B023
                return bool(settled.done)

            done, _ = await asyncio.gather(complete(), run_chores(bench.database, bench.engine, SWEEP))
        where = await whereabouts(bench, id_)
        if done:
            assert where == ["finished"]
            wins["completion"] += 1
        else:
            assert where == ["queued"]
            wins["sweep"] += 1
            assert (await bench.finish(*await bench.claim("b"))).done == {id_}
        await bench.run("delete from jobs")
    assert sum(wins.values()) == ROUNDS


@pytest.mark.spec("E5", "E8")
async def test_a_completion_that_waits_for_a_sweep_finds_its_claim_lost(bench: Bench) -> None:
    id_ = await bench.enqueue("test.subject", subject_id="s")
    (job,) = await bench.claim()
    async with bench.database.connection() as sweep:
        transaction = sweep.transaction()
        await transaction.start()
        await sweep.execute("select from jobs where id = $1 for update", id_)
        completion = asyncio.create_task(bench.finish(job))
        await wait_for_blocked(bench)
        await sweep.execute(
            "update jobs set state = 'queued', lease_expires_at = null, claimed_at = null where id = $1", id_
        )
        await transaction.commit()
    assert (await completion).lost == {id_}
    assert await bench.subject("s") == "claimed"
    assert await whereabouts(bench, id_) == ["queued"]


@pytest.mark.spec("E5", "E8")
async def test_a_sweep_passes_over_a_claim_that_is_being_completed(bench: Bench) -> None:
    id_ = await bench.enqueue()
    (job,) = await bench.claim()
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        assert (await finish_plain_jobs(connection, job.worker_id, [Finish(job)])).done == {id_}
        await bench.run("update workers set state = 'offline'")
        await run_chores(bench.database, bench.engine, SWEEP)
        await transaction.commit()
    assert await whereabouts(bench, id_) == ["finished"]


@pytest.mark.spec("E8")
async def test_many_sweeps_at_once_release_each_claim_once(bench: Bench) -> None:
    async with bench.database.transaction() as connection:
        await bench.enqueuer.enqueue_jobs(
            connection,
            [NewJob("test.subject", subject_id=f"s{n}", max_attempts=1 + n % 2) for n in range(200)],
        )
    await bench.claim(amount=200)
    await bench.run("update jobs set lease_expires_at = now() - interval '1 day'")
    await asyncio.gather(*(run_chores(bench.database, bench.engine, SWEEP) for _ in range(6)))
    assert await bench.one("select count(*) from jobs where state = 'queued'") == 100
    assert await bench.one("select count(*) from dead_jobs") == 100
    assert await bench.one("select count(*) from subjects where cardinality(history) <> 2") == 0
    assert await bench.one("select sum(value) from counters where name = 'stale_recovered'") == 100


@pytest.mark.spec("E12")
async def test_a_hold_and_claims_at_once_leave_no_job_both_held_and_running(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        await bench.worker(name)

    async def hold() -> int:
        async with bench.database.transaction() as connection:
            return await hold_owner(connection, "bot")

    for _ in range(ROUNDS // 2):
        async with bench.database.transaction() as connection:
            ids = await bench.enqueuer.enqueue_jobs(connection, [NewJob("test.plain", owner="bot")] * 20)
        holding = asyncio.create_task(hold())
        claims = await asyncio.gather(*(bench.claim(name, 4) for name in ("a", "b", "c")))
        held = await holding
        taken = [job for jobs in claims for job in jobs]
        assert held + len(taken) == 20
        assert await bench.claim("a", 20) == []
        # What ran goes on to its end, what was held is there again after the release.
        for job in taken:
            assert await finish_plain(bench, job)
        async with bench.database.transaction() as connection:
            assert await release_owner(connection, "bot") == held
        rest = await bench.claim("a", 20)
        assert {job.id for job in rest} == set(ids) - {job.id for job in taken}
        for job in rest:
            assert await finish_plain(bench, job)


@pytest.mark.spec("E12")
async def test_a_hold_waits_for_a_claim_in_progress_and_leaves_that_job_running(bench: Bench) -> None:
    first, second = await bench.enqueue(owner="bot"), await bench.enqueue(owner="bot")
    a, pool = await bench.worker("a"), await bench.pool()

    async def hold() -> int:
        async with bench.database.transaction() as connection:
            return await hold_owner(connection, "bot")

    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        (job,) = await a.claim_jobs(connection, pool, 1)
        holding = asyncio.create_task(hold())
        await wait_for_blocked(bench)
        await transaction.commit()
    assert await holding == 1
    assert [await bench.state(first), await bench.state(second)] == ["running", "held"]
    assert job.id == first


@pytest.mark.spec("E12")
async def test_a_claim_passes_over_jobs_that_are_being_held(bench: Bench) -> None:
    await bench.enqueue(owner="bot")
    other = await bench.enqueue(owner="other")
    async with bench.database.transaction() as connection:
        assert await hold_owner(connection, "bot") == 1
        assert [job.id for job in await bench.claim("a", 5)] == [other]
    assert await bench.claim("a", 5) == []


@pytest.mark.spec("E12")
async def test_holds_releases_enqueues_and_failures_in_any_order_strand_no_job(bench: Bench) -> None:
    """After everything has settled, a job is held exactly if its owner is."""
    for name in ("a", "b"):
        await bench.worker(name)

    async def flip() -> None:
        for _ in range(ROUNDS // 2):
            async with bench.database.transaction() as connection:
                await hold_owner(connection, "bot")
            async with bench.database.transaction() as connection:
                await release_owner(connection, "bot")

    async def enqueue() -> None:
        for n in range(ROUNDS):
            await bench.enqueue(owner="bot", idempotency_key=f"k{n}" if n % 2 else None, max_attempts=100)

    async def fail(name: str) -> None:
        for _ in range(ROUNDS):
            for job in await bench.claim(name, 2):
                assert await bench.fail(job)

    await asyncio.gather(flip(), flip(), enqueue(), fail("a"), fail("b"))
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.one("select count(*) from held_owners") == 0
    assert await bench.one("select count(*) from jobs where state not in ('queued', 'scheduled')") == 0
    assert await bench.one("select count(*) from jobs") == ROUNDS
