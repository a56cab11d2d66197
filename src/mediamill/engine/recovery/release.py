"""What recovery does with claims that nobody holds any more: back to the queue, or to the dead letter."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.alerts import alert_of_failure, raise_alert
from mediamill.engine.kinds import call_hooks
from mediamill.engine.model import MAX_ATTEMPTS_EXHAUSTED, STALE_REQUEUED
from mediamill.engine.rules import Engine
from mediamill.engine.settle import bury_jobs

log = logging.getLogger(__name__)

BATCH = 50


async def release_claims(connection: Connection, engine: Engine, rows: Sequence[Record]) -> int:
    """Rows under lock, together with their subjects. How many."""
    used_up = [row for row in rows if row["attempts"] >= row["max_attempts"]]
    await bury_jobs(connection, engine, used_up, MAX_ATTEMPTS_EXHAUSTED)
    for row in used_up:
        await alert_of_failure(connection, engine, row, exhausted=True, dead=True)
    again = [row for row in rows if row["attempts"] < row["max_attempts"]]
    if again:
        await store.jobs.requeue_released.rows(
            connection, ids=[row["id"] for row in again], error=STALE_REQUEUED
        )
        moved = [store.moved(row, reason=STALE_REQUEUED, error=STALE_REQUEUED) for row in again]
        await call_hooks(connection, engine.kinds, "on_released", moved)
        await store.recovery.count.run(connection, name="stale_recovered", amount=len(again))
        facts = {"jobs": [row["id"] for row in again], "worker": again[0]["worker_name"]}
        await raise_alert(connection, engine, "stale_job_recovered", facts)
    for row in rows:
        log.info("claim of job %d (%s) by %s released", row["id"], row["kind"], row["worker_name"])
    return len(rows)
