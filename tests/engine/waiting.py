"""Waiting for sessions that wait for each other, or that end, by what PostgreSQL says of them."""

from __future__ import annotations

import asyncio
from typing import Any

from mediamill.db.connection import Database
from tests.conftest import wait_until
from tests.engine.conftest import Bench

BLOCKED = (
    "select count(*) from pg_stat_activity where datname = current_database() "
    "and cardinality(pg_blocking_pids(pid)) > 0"
)


async def count_blocked(bench: Bench) -> int:
    """How many sessions of this database wait for a lock of another one."""
    return int(await bench.one(BLOCKED))


async def until_blocked(database: Database) -> None:
    """Until a session waits."""

    async def blocked() -> bool:
        async with database.connection() as connection:
            return bool(await connection.fetchval(BLOCKED))

    await wait_until(blocked)


async def wait_for_blocked(bench: Bench, count: int = 1) -> None:
    """Until so many sessions wait."""

    async def blocked() -> bool:
        return await count_blocked(bench) >= count

    await wait_until(blocked)


async def wait_until_done_or_blocked(bench: Bench, task: asyncio.Task[Any]) -> None:
    """Until a task has ended, or can go no further before somebody else does."""

    async def still() -> bool:
        return task.done() or await count_blocked(bench) > 0

    await wait_until(still)


async def has_no_session(bench: Bench, name: str) -> bool:
    """A session that was closed is listed for a moment."""
    sql = "select count(*) from pg_stat_activity where application_name = $1 and datname = current_database()"
    return bool(await bench.one(sql, name) == 0)
