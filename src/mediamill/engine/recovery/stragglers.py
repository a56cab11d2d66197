"""Chore: jobs that slipped past a hold or its release, or into a pool that is no more."""

from __future__ import annotations

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.recovery.release import BATCH
from mediamill.engine.rules import Engine


async def hold_stragglers(connection: Connection, _engine: Engine) -> int:
    """Enqueued by a transaction that had not seen its owner being held."""
    return await store.jobs.hold_stragglers.run(connection)


async def release_stragglers(connection: Connection, _engine: Engine) -> int:
    """Held by a transaction that had not seen its owner being released."""
    return len(await store.jobs.release_stragglers.rows(connection))


async def reroute_orphans(connection: Connection, _engine: Engine) -> int:
    """Enqueued by a transaction that had not seen its pool being dropped."""
    return len(await store.recovery.reroute_orphans.rows(connection, batch=BATCH))
