"""`mediamill workers` and `mediamill owners`."""

from __future__ import annotations

import pytest

from mediamill.db.connection import Database
from mediamill.engine.flight_dumps import keep_dump, pack
from mediamill.engine.model import Command, WorkerState
from mediamill.engine.workers import (
    WorkerKeyRevokedError,
    heartbeat,
    register_worker,
    worker_of_key,
)
from tests.cli.conftest import Mediamill


async def _register(database: Database, *names: str) -> list[int]:
    async with database.connection() as connection:
        return [await register_worker(connection, name=name) for name in names]


@pytest.mark.spec("E22")
@pytest.mark.parametrize(
    ("verb", "command"),
    [
        ("pause", Command.PAUSE),
        ("resume", Command.RESUME),
        ("shutdown", Command.SHUTDOWN),
        ("dump", Command.FORENSIC_DUMP),
    ],
)
async def test_a_command_reaches_the_worker_with_its_next_heartbeat(
    mediamill: Mediamill, database: Database, verb: str, command: Command
) -> None:
    told, other = await _register(database, "one", "two")
    assert (await mediamill("workers", verb, "one", "--json")).json == [{"id": told, "name": "one"}]
    async with database.connection() as connection:
        assert (await heartbeat(connection, told, state=WorkerState.IDLE)).command == command
        assert (await heartbeat(connection, told, state=WorkerState.IDLE)).command is None
        assert (await heartbeat(connection, other, state=WorkerState.IDLE)).command is None


@pytest.mark.spec("E22")
async def test_all_workers_but_the_offline_ones_are_told_at_once(
    mediamill: Mediamill, database: Database
) -> None:
    first, second, gone = await _register(database, "a", "b", "c")
    async with database.connection() as connection:
        await connection.execute("update workers set state = 'offline' where id = $1", gone)
    told = (await mediamill("workers", "pause", "--all", "--json")).json
    assert [worker["id"] for worker in told] == [first, second]
    late = await mediamill("workers", "pause", gone)
    assert late.code == 0
    assert "is offline" in late.err


async def test_an_unknown_worker_is_named_and_nobody_is_told(
    mediamill: Mediamill, database: Database
) -> None:
    await _register(database, "one")
    refused = await mediamill("workers", "pause", "one", "nobody")
    assert refused.code == 1
    assert "there is no worker nobody" in refused.err
    assert (await mediamill("workers", "list", "--json")).json[0]["command"] is None
    assert (await mediamill("workers", "pause")).code == 1
    assert (await mediamill("workers", "pause", "one", "--all")).code == 1


@pytest.mark.spec("E20")
async def test_registering_shows_a_key_once_that_works_until_it_is_revoked(
    mediamill: Mediamill, database: Database
) -> None:
    made = (await mediamill("workers", "register", "gpu-1", "--gpu", "--pool", "scripted", "--json")).json
    async with database.connection() as connection:
        assert await worker_of_key(connection, made["key"]) == made["id"]
    listed = await mediamill("workers", "list", "--json")
    assert made["key"] not in listed.out
    assert (listed.json[0]["type"], listed.json[0]["gpu"], listed.json[0]["pools"]) == (
        "remote",
        True,
        ["scripted"],
    )
    assert (await mediamill("workers", "revoke", "gpu-1")).code == 0
    async with database.connection() as connection:
        with pytest.raises(WorkerKeyRevokedError):
            await worker_of_key(connection, made["key"])


@pytest.mark.spec("E21")
async def test_a_disabled_worker_is_shown_as_such_until_it_is_enabled(
    mediamill: Mediamill, database: Database
) -> None:
    key = (await mediamill("workers", "register", "far", "--json")).json["key"]
    await mediamill("workers", "disable", "far")
    assert "disabled" in (await mediamill("workers", "list")).out
    await mediamill("workers", "enable", "far")
    async with database.connection() as connection:
        assert await worker_of_key(connection, key)
    assert "disabled" not in (await mediamill("workers", "list")).out


async def test_without_workers_the_list_says_what_to_do(mediamill: Mediamill) -> None:
    assert "mediamill up" in (await mediamill("workers", "list")).out
    assert (await mediamill("workers", "list", "--json")).json == []


@pytest.mark.spec("E12")
async def test_the_jobs_of_an_owner_are_held_and_released(mediamill: Mediamill) -> None:
    await mediamill("jobs", "add", "scripted.inline", "--owner", "bot-7", "--count", 2)
    await mediamill("jobs", "add", "scripted.inline", "--owner", "bot-8")
    assert (await mediamill("owners", "hold", "bot-7", "--json")).json == {"owner": "bot-7", "held": 2}
    held = (await mediamill("owners", "list", "--json")).json
    assert [(owner["owner"], owner["jobs"]) for owner in held] == [("bot-7", 2)]
    assert "bot-7" in (await mediamill("owners", "list")).out
    states = [job["state"] for job in (await mediamill("jobs", "list", "--json")).json]
    assert states == ["queued", "held", "held"]
    assert (await mediamill("owners", "release", "bot-7", "--json")).json == {"owner": "bot-7", "released": 2}
    assert (await mediamill("owners", "list", "--json")).json == []


@pytest.mark.spec("E24")
async def test_flight_logs_are_listed_and_one_is_printed_as_it_was_written(
    mediamill: Mediamill, database: Database
) -> None:
    assert "no flight logs" in (await mediamill("workers", "dumps")).out
    (id_,) = await _register(database, "far")
    name, text = f"{id_}_20261115T221730.210895Z.log", "one line é\nand another\n"
    async with database.transaction() as connection:
        await keep_dump(connection, name, pack(text.encode()))
    (listed,) = (await mediamill("workers", "dumps", "--json")).json
    assert (listed["name"], listed["worker_name"], listed["bytes"]) == (name, "far", len(text.encode()))
    assert "2026-11-15" in (await mediamill("workers", "dumps")).out
    assert (await mediamill("workers", "dumps", listed["id"])).out == text
    unknown = await mediamill("workers", "dumps", listed["id"] + 1)
    assert (unknown.code, "there is no flight log" in unknown.err) == (1, True)
