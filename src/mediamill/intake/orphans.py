"""Analyses that no file has any more: they go, and so do their jobs. Bytes and outputs are swept later."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.db.connection import Connection
from mediamill.engine.dead import purge_dead, purge_jobs
from mediamill.engine.rules import Engine
from mediamill.intake.store import queries


async def drop_orphans(connection: Connection, ids: Sequence[int]) -> int:
    """Of these analyses, whose files have gone in this transaction. How many.

    A job that runs is left to its worker: it finds nothing to complete. One that is just being claimed is passed over
    by the purge, and finds nothing to begin.
    """
    if not ids:
        return 0
    await queries.lock_analyses.rows(connection, ids=list(ids))
    gone = await queries.drop_orphans.rows(connection, ids=list(ids))
    jobs = [row["job_id"] for row in gone if row["job_id"] is not None]
    if jobs:
        await purge_jobs(connection, Engine(), jobs)
        await purge_dead(connection, jobs)
    return len(gone)
