"""Chore: queued jobs whose attempts are used up. No claim takes them, so they are failed here."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.model import MAX_ATTEMPTS_EXHAUSTED
from mediamill.engine.recovery.release import BATCH, move_jobs
from mediamill.engine.rules import Engine
from mediamill.engine.settle import bury_jobs


async def fail_exhausted(connection: Connection, engine: Engine) -> int:
    """One batch."""
    rows = await store.recovery.lock_exhausted.rows(connection, batch=BATCH)
    return await move_jobs(connection, engine, rows, _bury)


async def _bury(connection: Connection, engine: Engine, rows: Sequence[Record]) -> None:
    await bury_jobs(connection, engine, rows, MAX_ATTEMPTS_EXHAUSTED)
