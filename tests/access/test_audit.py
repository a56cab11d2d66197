from __future__ import annotations

import asyncio
from typing import cast

import pytest
from pydantic import SecretStr

from mediamill.access import audit
from mediamill.access.audit import Entry, list_entries, note, storable, sweep_access, tell_subject
from mediamill.access.model import HERE
from mediamill.access.restored import log_everybody_out
from mediamill.access.sessions import SessionLimits, open_session, session_caller
from mediamill.access.steps import begin_step
from mediamill.db.connection import Database


async def test_an_entry_is_there_before_it_is_known_how_it_went(database: Database) -> None:
    async with database.connection() as connection:
        entry = Entry("pool.change", "audio")
        await entry.begin(connection, HERE, "127.0.0.1")
        (noted,) = await list_entries(connection)
        assert (noted["who"], noted["kind"], noted["action"]) == ("this machine", "here", "pool.change")
        assert (noted["subject"], noted["outcome"]) == ("audio", "")
        tell_subject("audio, video")
        await entry.end(connection, "200")
        (noted,) = await list_entries(connection)
        assert (noted["subject"], noted["outcome"]) == ("audio, video", "200")


async def test_entries_are_found_by_who_and_what_page_by_page(database: Database) -> None:
    async with database.connection() as connection:
        ids = [
            await note(connection, HERE, action) for action in ("user.add", "user.remove", "users", "login")
        ]
        assert [each["id"] for each in await list_entries(connection, amount=2)] == ids[:1:-1]
        assert [each["id"] for each in await list_entries(connection, before=ids[2])] == ids[1::-1]
        assert [each["action"] for each in await list_entries(connection, action="user")] == [
            "user.remove",
            "user.add",
        ]
        assert await list_entries(connection, who="ann") == []
        assert len(await list_entries(connection, who=HERE.name)) == 4


async def test_what_is_old_is_swept_and_what_is_not_stays(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(3):
            await note(connection, HERE, "login")
        await connection.execute(
            "update audit set at = now() - interval '31 days' where id <> (select max(id) from audit)"
        )
        await open_session(connection, None, None, limits=SessionLimits(-1, 60), address=None, agent="")
    assert await sweep_access(database, 0) == 0
    assert await sweep_access(database, 30) == 2
    async with database.connection() as connection:
        assert len(await list_entries(connection)) == 1
        assert await connection.fetchval("select count(*) from login_sessions") == 0


async def test_after_a_restore_nobody_is_logged_in(database: Database) -> None:
    async with database.transaction() as connection:
        value = await open_session(
            connection, None, SecretStr("s"), limits=SessionLimits(60, 60), address=None, agent=""
        )
        assert await session_caller(connection, value, SecretStr("s")) is not None
        await log_everybody_out(connection)
        assert await session_caller(connection, value, SecretStr("s")) is None


def test_what_strangers_send_can_be_stored() -> None:
    assert storable("a\0b\ud800c") == "a�b?c"
    assert storable("x" * 300) == "x" * 300
    assert storable("x" * 301) == "x" * 299 + "…"


async def test_somebody_unknown_is_noted_as_such_and_a_subject_may_be_missing(database: Database) -> None:
    tell_subject("nothing is being done")
    async with database.connection() as connection:
        entry = Entry("login")
        await entry.end(connection, "never begun")
        await entry.begin(connection, None, "203.0.113.9")
        (noted,) = await list_entries(connection)
    assert (noted["who"], noted["kind"], noted["subject"]) == ("somebody unknown", "nobody", "")
    assert (str(noted["address"]), noted["outcome"]) == ("203.0.113.9", "")


async def test_a_page_of_the_audit_log_has_fifty_entries(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(51):
            await note(connection, HERE, "login")
        assert len(await list_entries(connection)) == 50


async def test_old_entries_are_swept_in_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "BATCH", 2)
    async with database.connection() as connection:
        for _ in range(5):
            await note(connection, HERE, "login")
        await connection.execute("update audit set at = now() - interval '31 days'")
        await begin_step(connection, "code", {})
        await connection.execute("update login_steps set expires_at = now()")
    assert await sweep_access(database, 30) == 5
    async with database.connection() as connection:
        assert await connection.fetchval("select count(*) from login_steps") == 0


async def test_the_sweep_goes_on_whatever_happens_to_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [OSError("the database is unavailable"), RuntimeError("a defect"), None]
    swept = asyncio.Event()

    async def sweep(_database: Database, keep_days: float) -> int:
        assert keep_days == 7
        error = errors.pop(0)
        if error is not None:
            raise error
        swept.set()
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(audit, "sweep_access", sweep)
    task = asyncio.create_task(audit.sweep_access_forever(cast(Database, None), 7, 0))
    await asyncio.wait_for(swept.wait(), 30)
    task.cancel()
