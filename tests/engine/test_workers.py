"""Workers: keys that are shown once, heartbeats, silence, commands."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from mediamill.engine.model import Command, WorkerState
from mediamill.engine.recovery.silent_workers import mark_silent
from mediamill.engine.recovery.sweep import run_chore
from mediamill.engine.workers import (
    Heard,
    UnknownWorkerError,
    WorkerKeyInvalidError,
    WorkerKeyRevokedError,
    WorkerReplacedError,
    disable_worker,
    enable_worker,
    find_worker,
    give_command,
    greet_worker,
    heartbeat,
    is_process_dead,
    issue_key,
    list_workers,
    machine_key,
    process_key,
    register_worker,
    revoke_keys,
    set_state,
    show_worker,
    worker_of_key,
)
from mediamill.errors import InvalidError
from tests.engine.conftest import Bench


async def register(bench: Bench, name: str = "far", type_: str = "remote", **more: Any) -> int:
    async with bench.database.connection() as connection:
        return await register_worker(connection, name=name, type_=type_, **more)


async def beat(bench: Bench, worker_id: int, state: WorkerState = WorkerState.IDLE) -> Heard:
    async with bench.database.connection() as connection:
        return await heartbeat(connection, worker_id, state=state, stats={"done": 1}, hostname="host")


async def age(bench: Bench, worker_id: int, column: str, seconds: float) -> None:
    await bench.run(
        f"update workers set {column} = now() - make_interval(secs => $2) where id = $1", worker_id, seconds
    )


async def state(bench: Bench, worker_id: int) -> str:
    return str(await bench.one("select state from workers where id = $1", worker_id))


@pytest.mark.spec("E20")
async def test_a_key_of_256_bits_is_shown_once_and_kept_as_a_hash_with_a_prefix(bench: Bench) -> None:
    worker_id = await register(bench)
    async with bench.database.connection() as connection:
        key = await issue_key(connection, worker_id)
        row = await connection.fetchrow("select * from worker_keys")
        assert row is not None
        assert row["prefix"] == key[:8]
        assert row["hash"] == hashlib.sha256(key.encode()).digest()
        assert len(key) >= 43  # 32 bytes in base64
        everything = await connection.fetchval(
            "select string_agg(k::text, '') || (select string_agg(w::text, '') from workers w) from worker_keys k"
        )
        assert key not in everything
        assert await worker_of_key(connection, key) == worker_id
        assert await issue_key(connection, worker_id) != key


@pytest.mark.spec("E20")
async def test_a_wrong_and_a_revoked_key_are_refused_each_in_its_own_words_and_a_disabled_workers_is_not(
    bench: Bench,
) -> None:
    worker_id, other = await register(bench), await register(bench, "other")
    async with bench.database.connection() as connection:
        key, kept = await issue_key(connection, worker_id), await issue_key(connection, other)
        for wrong in (key[:-1] + ("A" if key[-1] != "A" else "B"), "", "x", key[:8], "ä\x00"):
            with pytest.raises(WorkerKeyInvalidError):
                await worker_of_key(connection, wrong)
        await disable_worker(connection, worker_id)
        assert await worker_of_key(connection, key) == worker_id
        await enable_worker(connection, worker_id)
        assert await worker_of_key(connection, key) == worker_id
        assert await revoke_keys(connection, worker_id) == 1
        assert await revoke_keys(connection, worker_id) == 0
        with pytest.raises(WorkerKeyRevokedError):
            await worker_of_key(connection, key)
        assert await worker_of_key(connection, kept) == other


@pytest.mark.spec("E20")
async def test_capabilities_and_metadata_are_json_of_ten_kilobytes_at_most(bench: Bench) -> None:
    fits = {"a": "x" * (10 * 1024 - len('{"a": ""}'))}
    await register(bench, capabilities=fits, metadata=fits)
    for what in ("capabilities", "metadata"):
        more: dict[str, Any] = {what: {"a": fits["a"] + "x"}}
        with pytest.raises(InvalidError, match=what):
            await register(bench, **more)
    async with bench.database.connection() as connection:
        (worker,) = await list_workers(connection)
    assert worker["capabilities"] == fits


@pytest.mark.spec("E21")
@pytest.mark.parametrize("type_", ["remote", "local"])
@pytest.mark.parametrize(
    ("before", "heard_seconds", "after"),
    [
        ("idle", 299, "idle"),
        ("idle", 301, "offline"),
        ("busy", 301, "offline"),
        ("paused", 301, "offline"),
        ("active", 301, "offline"),
        ("disabled", 301, "disabled"),
    ],
)
async def test_silence_of_five_minutes_makes_a_worker_offline(
    bench: Bench, type_: str, before: str, heard_seconds: int, after: str
) -> None:
    worker_id = await register(bench, type_=type_)
    await bench.run("update workers set state = $1", before)
    await age(bench, worker_id, "heartbeat_at", heard_seconds)
    assert await run_chore(bench.database, bench.engine, mark_silent) == (after == "offline")
    assert await state(bench, worker_id) == after
    told = await bench.one("select count(*) from events where topic = 'worker.status'")
    assert told == (after == "offline")


@pytest.mark.spec("E21")
async def test_a_worker_never_heard_is_judged_by_its_registration(bench: Bench) -> None:
    new, old = await register(bench), await register(bench)
    await age(bench, old, "registered_at", 301)
    await run_chore(bench.database, bench.engine, mark_silent)
    assert [await state(bench, new), await state(bench, old)] == ["active", "offline"]


@pytest.mark.spec("E21")
async def test_a_heartbeat_brings_an_offline_worker_back_to_idle_or_busy_and_the_log_says_so(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.engine")
    for back in (WorkerState.IDLE, WorkerState.BUSY):
        worker_id = await register(bench)
        await bench.run("update workers set state = 'offline'")
        assert (await beat(bench, worker_id, back)).state == back
        assert await state(bench, worker_id) == back
        await beat(bench, worker_id, back)
    assert caplog.text.count("which was offline, is back") == 2
    async with bench.database.connection() as connection:
        found = {worker["id"]: worker for worker in await list_workers(connection)}
    assert found[worker_id]["stats"] == {"done": 1}
    assert found[worker_id]["hostname"] == "host"


@pytest.mark.spec("E21")
async def test_a_disabled_worker_stays_disabled_whatever_it_says_and_gets_no_jobs(bench: Bench) -> None:
    await bench.enqueue()
    worker_id = (await bench.worker("a")).worker_id
    async with bench.database.connection() as connection:
        await disable_worker(connection, worker_id)
    assert (await beat(bench, worker_id)).state == WorkerState.DISABLED
    assert await state(bench, worker_id) == "disabled"
    assert await bench.claim("a") == []
    async with bench.database.connection() as connection:
        await enable_worker(connection, worker_id)
    assert (await beat(bench, worker_id)).state == WorkerState.IDLE
    assert len(await bench.claim("a")) == 1


@pytest.mark.spec("E21")
async def test_the_offline_check_waits_out_the_grace_after_a_server_start(bench: Bench) -> None:
    worker_id = await register(bench)
    await age(bench, worker_id, "heartbeat_at", 1000)
    await bench.run(
        "insert into counters values ('server_started_at', (extract(epoch from now()) * 1000000)::bigint)"
    )
    engine = replace(bench.engine, startup_grace_seconds=120)
    assert await run_chore(bench.database, engine, mark_silent) == 0
    assert await state(bench, worker_id) == "active"


@pytest.mark.spec("E22")
@pytest.mark.parametrize("command", list(Command))
async def test_a_command_is_handed_over_once(bench: Bench, command: Command) -> None:
    worker_id, other = await register(bench), await register(bench)
    async with bench.database.connection() as connection:
        await give_command(connection, worker_id, command)
    assert (await beat(bench, other)).command is None
    heard = [answer.command for answer in await asyncio.gather(*(beat(bench, worker_id) for _ in range(8)))]
    assert sorted(heard, key=str) == sorted([command] + [None] * 7, key=str)
    assert (await beat(bench, worker_id)).command is None


@pytest.mark.spec("E22")
async def test_a_worker_is_found_by_id_or_name_and_an_unknown_one_is_named(bench: Bench) -> None:
    worker_id = await register(bench, "far")
    async with bench.database.connection() as connection:
        assert await find_worker(connection, "far") == worker_id
        assert await find_worker(connection, str(worker_id)) == worker_id
        with pytest.raises(UnknownWorkerError, match="no worker near"):
            await find_worker(connection, "near")
        with pytest.raises(UnknownWorkerError):
            await give_command(connection, 4242, Command.PAUSE)
        with pytest.raises(UnknownWorkerError):
            await heartbeat(connection, 4242, state=WorkerState.IDLE)


async def test_a_remote_worker_that_starts_gets_its_name_and_its_key_speaks_for_that_process(
    bench: Bench,
) -> None:
    worker_id = await register(bench)
    async with bench.database.connection() as connection:
        key = await issue_key(connection, worker_id)
        greeted = await greet_worker(
            connection,
            worker_id,
            instance="one",
            hostname="host",
            capabilities={"gpu": True},
            metadata={"a": 1},
        )
        assert greeted["name"] == "far"
        (listed,) = await list_workers(connection)
        assert (listed["hostname"], listed["capabilities"], listed["metadata"]) == (
            "host",
            {"gpu": True},
            {"a": 1},
        )
        assert await worker_of_key(connection, key, "one") == worker_id
        assert await worker_of_key(connection, key) == worker_id
        with pytest.raises(WorkerReplacedError):
            await worker_of_key(connection, key, "two")
        for text in (key + "é", "\0"):
            with pytest.raises(WorkerKeyInvalidError):
                await worker_of_key(connection, text)
        with pytest.raises(UnknownWorkerError):
            await greet_worker(
                connection, worker_id + 1, instance="x", hostname=None, capabilities={}, metadata={}
            )


async def test_an_unknown_worker_is_refused_whatever_is_asked_of_it(bench: Bench) -> None:
    worker_id = await register(bench)
    async with bench.database.connection() as connection:
        assert (await show_worker(connection, worker_id))["name"] == "far"
        with pytest.raises(UnknownWorkerError):
            await show_worker(connection, worker_id + 1)
        with pytest.raises(UnknownWorkerError):
            await disable_worker(connection, worker_id + 1)
        with pytest.raises(UnknownWorkerError):
            await heartbeat(connection, worker_id + 1, state=WorkerState.IDLE)


async def test_a_change_of_state_is_a_live_event_and_the_same_state_is_none(bench: Bench) -> None:
    worker_id = await register(bench)
    await bench.run("update workers set state = 'offline'")
    for _ in range(2):
        await beat(bench, worker_id)
    async with bench.database.connection() as connection:
        await set_state(connection, worker_id, "far", WorkerState.OFFLINE)
        await disable_worker(connection, worker_id)
        rows = await connection.fetch("select topic, subject, data from events order by id")
    told = [(row["topic"], row["subject"], json.loads(row["data"])) for row in rows]
    expected = [{"id": worker_id, "name": "far", "state": state} for state in ("idle", "offline", "disabled")]
    assert told == [("worker.status", str(worker_id), data) for data in expected]


def test_a_process_is_known_by_its_machine_id_and_start_and_so_is_its_end() -> None:
    assert process_key() == process_key(os.getpid())
    machine, pid, ticks = process_key().rsplit("/", 2)
    assert (machine, pid, ticks.isdigit()) == (machine_key(), str(os.getpid()), True)
    assert not is_process_dead(process_key())
    assert is_process_dead(f"{machine}/{pid}/{int(ticks) - 1}")
    assert not is_process_dead(f"elsewhere/{pid}/{int(ticks) - 1}")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        key = process_key(other.pid)
        assert not is_process_dead(key)
    assert is_process_dead(key)
