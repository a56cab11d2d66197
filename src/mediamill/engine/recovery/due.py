"""Chore: scheduled jobs whose time has come."""

from __future__ import annotations

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.rules import Engine

BATCH = 500


async def promote_due(connection: Connection, _engine: Engine) -> int:
    """One batch."""
    return len(await store.jobs.promote_due.rows(connection, batch=BATCH))
