"""Chore: claims whose lease is over (and whose worker is gone, or which are stale whatever it says)."""

from __future__ import annotations

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.recovery.release import BATCH, release_claims
from mediamill.engine.rules import Engine


async def release_expired(connection: Connection, engine: Engine) -> int:
    """One batch."""
    rows = await store.recovery.lock_expired.rows(
        connection, startup_grace_seconds=engine.startup_grace_seconds, batch=BATCH
    )
    return await release_claims(connection, engine, rows)
