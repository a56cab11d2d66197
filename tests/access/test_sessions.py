from __future__ import annotations

import pytest
from pydantic import SecretStr

from mediamill.access.audit import sweep_access
from mediamill.access.sessions import SessionLimits, list_sessions, open_session, session_caller
from mediamill.db.connection import Connection, Database

SECRET = SecretStr("a secret")
HOUR = 3600.0


async def unused_for(connection: Connection, seconds: float) -> None:
    await connection.execute(
        "update login_sessions set used_at = now() - make_interval(secs => $1)", float(seconds)
    )


@pytest.fixture
async def cookie(database: Database) -> str:
    """Of a session that may be idle for an hour."""
    async with database.transaction() as connection:
        limits = SessionLimits(seconds=10 * HOUR, idle_seconds=HOUR)
        return await open_session(connection, None, SECRET, limits=limits, address=None, agent="")


async def test_a_session_that_nobody_uses_ends_and_is_swept(database: Database, cookie: str) -> None:
    async with database.connection() as connection:
        await unused_for(connection, HOUR - 60)
        assert await session_caller(connection, cookie, SECRET) is not None
        await unused_for(connection, HOUR + 1)
        assert await session_caller(connection, cookie, SECRET) is None
        assert await list_sessions(connection, None) == []
        await sweep_access(database, 0)
        assert await connection.fetchval("select count(*) from login_sessions") == 0


async def test_use_keeps_a_session_open_and_is_written_down_once_a_minute(
    database: Database, cookie: str
) -> None:
    async with database.connection() as connection:
        for unused, written in ((30.0, False), (90.0, True)):
            await unused_for(connection, unused)
            before = await connection.fetchval("select used_at from login_sessions")
            assert await session_caller(connection, cookie, SECRET) is not None
            after = await connection.fetchval("select used_at from login_sessions")
            assert (after > before) is written


async def test_use_does_not_keep_a_session_beyond_its_whole_time(database: Database, cookie: str) -> None:
    async with database.connection() as connection:
        await connection.execute("update login_sessions set expires_at = now()")
        assert await session_caller(connection, cookie, SECRET) is None
