"""Chore: workers that have not been heard for too long are offline."""

from __future__ import annotations

import logging

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.rules import Engine
from mediamill.engine.workers import tell_worker

log = logging.getLogger(__name__)


async def mark_silent(connection: Connection, engine: Engine) -> int:
    """How many went offline."""
    rows = await store.recovery.mark_silent.rows(
        connection,
        offline_after_seconds=engine.offline_after_seconds,
        startup_grace_seconds=engine.startup_grace_seconds,
    )
    for row in rows:
        log.warning(
            "worker %s has not been heard for %g s and counts as offline",
            row["name"],
            engine.offline_after_seconds,
        )
        await tell_worker(connection, row["id"], row["name"], "offline")
    return len(rows)
