"""Claims that a remote worker holds without knowing it: the answer was lost, or another process has its key now.

Its heartbeats keep it from being offline, so that nobody else would put such a job back before its lease is stale.
"""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.db.connection import Database
from mediamill.engine import store
from mediamill.engine.recovery.release import BATCH, release_claims
from mediamill.engine.rules import Engine
from mediamill.engine.settle import hand_back


async def return_unheard(
    database: Database, engine: Engine, worker_id: int, known: Sequence[int], older_than_seconds: float
) -> None:
    """A living worker does not know of these: the answer to its claim was lost. They never ran: it is no attempt.

    What it gave up because its lease was over did run, and counts.
    """
    async with database.connection() as connection:
        rows = await store.recovery.lock_unknown_claims.rows(
            connection,
            worker_id=worker_id,
            known=list(known),
            older_than_seconds=older_than_seconds,
            batch=BATCH,
        )
    if unheard := [store.held_job(row) for row in rows if row["valid"]]:
        await hand_back(database, engine, worker_id, unheard)
    if rows:
        await release_unknown(database, engine, worker_id, known, older_than_seconds=older_than_seconds)


async def release_unknown(
    database: Database,
    engine: Engine,
    worker_id: int,
    known: Sequence[int] = (),
    *,
    older_than_seconds: float = 0,
) -> int:
    """All that it holds besides what it knows, in batches; how many jobs went back."""
    released = 0
    while True:
        async with database.transaction() as connection:
            rows = await store.recovery.lock_unknown_claims.rows(
                connection,
                worker_id=worker_id,
                known=list(known),
                older_than_seconds=older_than_seconds,
                batch=BATCH,
            )
            released += await release_claims(connection, engine, rows)
        if len(rows) < BATCH:
            return released
