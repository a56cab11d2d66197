"""Races of workers: heartbeat against silence, coming back against being given up, commands."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from mediamill.engine.lease import extend_leases
from mediamill.engine.model import Command, WorkerState
from mediamill.engine.recovery.lost_sessions import release_lost_sessions
from mediamill.engine.recovery.silent_workers import mark_silent
from mediamill.engine.recovery.sweep import run_chore
from mediamill.engine.workers import give_command, heartbeat, register_worker, take_session_lock
from tests.engine.conftest import Bench
from tests.engine.waiting import wait_for_blocked
from tests.races.conftest import ROUNDS


async def silent_worker(bench: Bench) -> int:
    async with bench.database.connection() as connection:
        id_ = await register_worker(connection, name="far", type_="remote")
    await silence(bench, id_)
    return id_


async def silence(bench: Bench, id_: int) -> None:
    await bench.run(
        "update workers set heartbeat_at = now() - interval '1 hour', state = 'idle' where id = $1", id_
    )


async def beat(bench: Bench, id_: int) -> None:
    async with bench.database.connection() as connection:
        await heartbeat(connection, id_, state=WorkerState.BUSY)


@pytest.mark.spec("E21")
async def test_a_heartbeat_in_between_defeats_the_offline_check(bench: Bench) -> None:
    id_ = await silent_worker(bench)
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await heartbeat(connection, id_, state=WorkerState.BUSY)
        check = asyncio.create_task(run_chore(bench.database, bench.engine, mark_silent))
        await wait_for_blocked(bench)
        await transaction.commit()
    assert await check == 0
    assert await bench.one("select state from workers") == "busy"


@pytest.mark.spec("E21")
async def test_a_heartbeat_that_waits_for_the_offline_check_brings_the_worker_back(bench: Bench) -> None:
    id_ = await silent_worker(bench)
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        assert await mark_silent(connection, bench.engine) == 1
        beating = asyncio.create_task(beat(bench, id_))
        await wait_for_blocked(bench)
        await transaction.commit()
    await beating
    assert await bench.one("select state from workers") == "busy"


@pytest.mark.spec("E21")
async def test_whatever_the_order_a_worker_that_was_heard_is_never_left_offline(bench: Bench) -> None:
    id_ = await silent_worker(bench)
    for _ in range(ROUNDS):
        await silence(bench, id_)
        await asyncio.gather(
            run_chore(bench.database, bench.engine, mark_silent),
            beat(bench, id_),
            run_chore(bench.database, bench.engine, mark_silent),
        )
        assert await bench.one("select state from workers") == "busy"


@pytest.mark.spec("E22")
async def test_a_command_given_during_a_heartbeat_is_not_lost(bench: Bench) -> None:
    id_ = await silent_worker(bench)
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await give_command(connection, id_, Command.PAUSE)
        async with bench.database.connection() as other:
            beating = asyncio.create_task(heartbeat(other, id_, state=WorkerState.IDLE))
            await wait_for_blocked(bench)
            await transaction.commit()
            assert (await beating).command is Command.PAUSE
            assert (await heartbeat(other, id_, state=WorkerState.IDLE)).command is None


@pytest.mark.spec("E22")
async def test_commands_and_heartbeats_at_once_hand_every_command_over_once(bench: Bench) -> None:
    id_ = await silent_worker(bench)

    async def listen() -> int:
        async with bench.database.connection() as connection:
            heard = await heartbeat(connection, id_, state=WorkerState.IDLE)
        return int(heard.command is not None)

    for _ in range(ROUNDS):
        async with bench.database.connection() as connection:
            given = give_command(connection, id_, Command.FORENSIC_DUMP)
            _, *counts = await asyncio.gather(given, listen(), listen(), listen())
        assert sum(counts) + await listen() == 1


@pytest.mark.spec("E9")
async def test_of_a_worker_that_comes_back_and_its_release_exactly_one_wins(bench: Bench) -> None:
    """Either it keeps its claim and goes on, or the claim is released and its word is late."""
    claimer = await bench.worker("w")
    id_ = await bench.enqueue(max_attempts=1000)
    kept = released = 0
    for _ in range(ROUNDS // 2):
        await bench.run("update workers set state = 'busy', process = 'another-machine/1/1'")
        await bench.run("update workers set session_lost_at = now() - interval '1 minute'")
        (job,) = await bench.claim("w")
        session = await asyncpg.connect(bench.database.url)

        async def come_back() -> set[int]:
            await take_session_lock(session, claimer.worker_id)  # noqa: B023
            async with bench.database.connection() as connection:
                await heartbeat(connection, claimer.worker_id, state=WorkerState.BUSY)
                return await extend_leases(
                    connection,
                    [job.claim],  # noqa: B023
                    worker_id=claimer.worker_id,
                    lease_seconds=300,
                )

        held, given_up = await asyncio.gather(
            come_back(), release_lost_sessions(bench.database, bench.engine)
        )
        assert (len(held), given_up) in ((1, 0), (0, 1))
        state = await bench.state(id_)
        assert state == ("running" if held else "queued")
        kept, released = kept + len(held), released + given_up
        assert await bench.one("select state from workers") == "busy"
        await session.close()
        await bench.run("update jobs set state = 'queued', error = null, lease_expires_at = null")
    assert kept + released == ROUNDS // 2


@pytest.mark.spec("E9")
async def test_a_worker_cannot_take_its_session_in_the_middle_of_its_release(bench: Bench) -> None:
    claimer = await bench.worker("w")
    await bench.enqueue()
    await bench.claim("w")
    session = await asyncpg.connect(bench.database.url)
    try:
        async with bench.database.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            assert await connection.fetchval(
                "select pg_try_advisory_xact_lock($1, $2)", 0x6D6D01, claimer.worker_id
            )
            coming = asyncio.create_task(take_session_lock(session, claimer.worker_id))
            await wait_for_blocked(bench)
            await transaction.commit()
        await coming
        await bench.run("update workers set session_lost_at = now() - interval '1 minute'")
        assert await release_lost_sessions(bench.database, bench.engine) == 0
    finally:
        await session.close()
