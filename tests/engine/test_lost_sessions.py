"""Local workers are known by their session: lost for longer than the grace, their claims are released, once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest

from mediamill.engine.model import NewJob, WorkerState
from mediamill.engine.recovery.lost_sessions import release_lost_sessions
from mediamill.engine.recovery.sweep import recover_at_start
from mediamill.engine.workers import (
    disable_worker,
    heartbeat,
    is_process_dead,
    process_key,
    set_state,
    take_session_lock,
)
from tests.engine.conftest import Bench

ELSEWHERE = "another-boot:4026531836/4711/123456"


@asynccontextmanager
async def session(bench: Bench, worker: str) -> AsyncIterator[None]:
    """The session of a living worker."""
    connection = await asyncpg.connect(bench.database.url)
    await take_session_lock(connection, (await bench.worker(worker)).worker_id)
    try:
        yield
    finally:
        await connection.close()


async def claim_many(bench: Bench, worker: str, count: int) -> list[int]:
    async with bench.database.transaction() as connection:
        await bench.enqueuer.enqueue_jobs(
            connection, [NewJob("test.subject", subject_id=f"{worker}{n}") for n in range(count)]
        )
    return [job.id for job in await bench.claim(worker, count)]


def dead_process() -> str:
    """A process of this machine that is gone."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    key = process_key(child.pid)
    assert not is_process_dead(key)
    child.communicate()
    return key


async def count_released(bench: Bench) -> int:
    return int(
        await bench.one("select sum(cardinality(array_positions(history, 'released'))) from subjects") or 0
    )


@pytest.mark.spec("E9")
async def test_claims_of_a_session_that_is_gone_are_released_after_the_grace_period(bench: Bench) -> None:
    ids = await claim_many(bench, "w", 3)
    await bench.run("update workers set process = $1", ELSEWHERE)
    async with session(bench, "w"):
        assert await release_lost_sessions(bench.database, bench.engine) == 0
        assert await bench.one("select session_lost_at from workers") is None
    while not await bench.one("select session_lost_at from workers"):
        assert await release_lost_sessions(bench.database, bench.engine) == 0
    assert {await bench.state(id_) for id_ in ids} == {"running"}
    await bench.run("update workers set session_lost_at = now() - interval '5.1 s'")
    assert await release_lost_sessions(bench.database, bench.engine) == 3
    assert {await bench.state(id_) for id_ in ids} == {"queued"}
    assert await bench.one("select state from workers") == "offline"


@pytest.mark.spec("E9")
async def test_a_worker_that_takes_its_lock_again_in_time_keeps_its_claims(bench: Bench) -> None:
    (id_,) = await claim_many(bench, "w", 1)
    await bench.run("update workers set process = $1", ELSEWHERE)
    assert await release_lost_sessions(bench.database, bench.engine) == 0
    assert await bench.one("select session_lost_at from workers") is not None
    # Even if the stamp is old: the lock itself decides.
    await bench.run("update workers set session_lost_at = now() - interval '1 hour'")
    async with session(bench, "w"):
        assert await release_lost_sessions(bench.database, bench.engine) == 0
        assert await bench.one("select session_lost_at from workers") is None
    assert await bench.state(id_) == "running"


@pytest.mark.spec("E9")
async def test_a_lost_worker_that_comes_back_is_idle_again_and_its_old_claims_are_void(bench: Bench) -> None:
    (id_,) = await claim_many(bench, "w", 1)
    worker_id = bench.claimers["w"].worker_id
    await bench.run("update workers set session_lost_at = now() - interval '1 hour'")
    assert await release_lost_sessions(bench.database, bench.engine) == 1
    async with session(bench, "w"), bench.database.connection() as connection:
        await heartbeat(connection, worker_id, state=WorkerState.IDLE)
    assert await bench.one("select state from workers") == "idle"
    (again,) = await bench.claim("w")
    assert again.id == id_
    assert again.attempts == 2


@pytest.mark.spec("E9")
async def test_what_a_worker_claims_before_its_first_heartbeat_after_coming_back_is_not_left_to_the_lease(
    bench: Bench,
) -> None:
    (id_,) = await claim_many(bench, "w", 1)
    await bench.run("update workers set process = $1", ELSEWHERE)
    await bench.run("update workers set session_lost_at = now() - interval '1 hour'")
    assert await release_lost_sessions(bench.database, bench.engine) == 1
    async with session(bench, "w"):
        (again,) = await bench.claim("w")
    assert again.id == id_
    while not await bench.one("select session_lost_at from workers"):
        await release_lost_sessions(bench.database, bench.engine)
    await bench.run("update workers set session_lost_at = now() - interval '6 s'")
    assert await release_lost_sessions(bench.database, bench.engine) == 1
    assert await bench.state(id_) == "queued"


@pytest.mark.spec("E9", "E17")
async def test_a_dead_process_of_this_machine_is_not_given_any_grace(bench: Bench) -> None:
    ids = await claim_many(bench, "w", 120)
    await bench.run("update workers set process = $1", dead_process())
    assert await recover_at_start(bench.database, bench.engine) == 120
    assert {await bench.state(id_) for id_ in ids} == {"queued"}
    assert await bench.one("select state from workers") == "offline"


@pytest.mark.spec("E9", "E17")
async def test_a_claim_that_is_committed_after_its_dead_worker_went_offline_is_released_too(
    bench: Bench,
) -> None:
    """The server goes on with the last statement of a killed process; nobody waits for the lease of that claim."""
    early, late = await claim_many(bench, "w", 2)
    await bench.run("update workers set process = $1", dead_process())
    last = await asyncpg.connect(bench.database.url)
    async with last.transaction():
        await last.execute("select from jobs where id = $1 for update", late)
        assert await release_lost_sessions(bench.database, bench.engine) == 1
        assert await bench.one("select state from workers") == "offline"
        await last.execute("update jobs set claimed_at = now() where id = $1", late)
    await last.close()
    assert await bench.state(early) == "queued"
    assert await release_lost_sessions(bench.database, bench.engine) == 1
    assert await bench.state(late) == "queued"


@pytest.mark.spec("E9", "E17")
async def test_a_claim_that_is_committed_after_its_worker_left_in_good_order_is_released_too(
    bench: Bench,
) -> None:
    """It gave up waiting for the answer to its last claim; the server goes on with that all the same."""
    worker_id = (await bench.worker("w")).worker_id
    async with session(bench, "w"), bench.database.transaction() as connection:
        await set_state(connection, worker_id, "w", WorkerState.OFFLINE)
    assert await release_lost_sessions(bench.database, bench.engine) == 0
    (late,) = await claim_many(bench, "w", 1)
    await bench.run("update workers set process = $1", dead_process())
    assert await release_lost_sessions(bench.database, bench.engine) == 1
    assert await bench.state(late) == "queued"
    assert await bench.one("select state from workers") == "offline"


@pytest.mark.spec("E17")
async def test_two_processes_that_recover_at_once_release_each_claim_once(bench: Bench) -> None:
    dead = dead_process()
    for worker in ("a", "b", "c"):
        await claim_many(bench, worker, 60)
    await bench.run("update workers set process = $1", dead)
    released = await asyncio.gather(*(recover_at_start(bench.database, bench.engine) for _ in range(4)))
    assert sum(released) == 180
    assert await count_released(bench) == 180
    assert await bench.one("select count(*) from jobs where state = 'queued' and attempts = 1") == 180
    assert await recover_at_start(bench.database, bench.engine) == 0


@pytest.mark.spec("E17")
async def test_recovery_does_not_touch_living_workers_here_or_on_other_machines(bench: Bench) -> None:
    engine = replace(bench.engine, session_grace_seconds=0)
    kept = await claim_many(bench, "elsewhere", 5) + await claim_many(bench, "here", 5)
    await bench.run("update workers set process = $1 where name = 'elsewhere'", ELSEWHERE)
    gone = await claim_many(bench, "gone", 5)
    await bench.run("update workers set process = $1 where name = 'gone'", dead_process())
    async with session(bench, "elsewhere"), session(bench, "here"):
        assert await recover_at_start(bench.database, engine) == 5
        assert await recover_at_start(bench.database, engine) == 0
        assert {await bench.state(id_) for id_ in kept} == {"running"}
    assert {await bench.state(id_) for id_ in gone} == {"queued"}


@pytest.mark.spec("E17")
async def test_another_machines_worker_with_a_pid_like_ours_is_not_judged_by_our_processes(
    bench: Bench,
) -> None:
    (id_,) = await claim_many(bench, "w", 1)
    await bench.run("update workers set process = $1", ELSEWHERE)
    assert await recover_at_start(bench.database, bench.engine) == 0
    assert await bench.state(id_) == "running"
    assert not is_process_dead(ELSEWHERE)


@pytest.mark.spec("E9", "E21")
async def test_a_disabled_worker_that_dies_loses_its_claims_stays_disabled_and_is_told_of_once(
    bench: Bench,
) -> None:
    (id_,) = await claim_many(bench, "w", 1)
    async with bench.database.transaction() as connection:
        await disable_worker(connection, bench.claimers["w"].worker_id)
    await bench.run("update workers set process = $1", dead_process())
    for _ in range(3):
        await release_lost_sessions(bench.database, bench.engine)
    assert await bench.state(id_) == "queued"
    assert await bench.one("select state from workers") == "disabled"
    told = "select json_agg(data ->> 'state' order by id) from events where topic = 'worker.status'"
    assert json.loads(await bench.one(told)) == ["busy", "disabled"]


@pytest.mark.spec("E6", "E17")
async def test_a_subject_that_refuses_does_not_keep_other_lost_workers_from_being_released(
    bench: Bench,
) -> None:
    await bench.enqueue("test.subject", subject_id="bad", payload={"refuse": "released"})
    await bench.claim("a")
    (good,) = await claim_many(bench, "b", 1)
    await bench.run("update workers set process = $1", dead_process())
    await release_lost_sessions(bench.database, bench.engine)
    assert await bench.state(good) == "queued"
    assert await bench.one("select count(*) from jobs where state = 'running'") == 0


@pytest.mark.spec("E9", "E21")
async def test_a_worker_that_is_lost_is_told_of_as_offline(bench: Bench) -> None:
    (id_,) = await claim_many(bench, "w", 1)
    await bench.run("update workers set process = $1", dead_process())
    assert await release_lost_sessions(bench.database, bench.engine) == 1
    assert await bench.state(id_) == "queued"
    told = await bench.one(
        "select data::jsonb - 'id' from events where topic = 'worker.status' order by id desc limit 1"
    )
    assert json.loads(told) == {"name": "w", "state": "offline"}
