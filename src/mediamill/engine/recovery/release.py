"""What recovery does with claims that nobody holds any more: back to the queue, or to the dead letter."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from asyncpg import Record

from mediamill.db.connection import ASK_AGAIN, Connection
from mediamill.engine import store
from mediamill.engine.alerts import alert_of_failure, raise_alert
from mediamill.engine.attempts import Outcome, tally
from mediamill.engine.kinds import Kinds, call_hooks
from mediamill.engine.model import MAX_ATTEMPTS_EXHAUSTED, STALE_REQUEUED, Failure, failure_of
from mediamill.engine.rules import Engine
from mediamill.engine.settle import bury_jobs
from mediamill.logs import tell

log = logging.getLogger(__name__)

BATCH = 50

Move = Callable[[Connection, Engine, Sequence[Record]], Awaitable[None]]


async def move_jobs(connection: Connection, engine: Engine, rows: Sequence[Record], move: Move) -> int:
    """Move rows under lock; if a hook fails, one by one. How many.

    A job whose subject refuses goes to the dead letter without it, where somebody sees it: if it stayed, it
    would be in the way of every sweep to come.
    """
    if not rows:
        return 0
    try:
        async with connection.transaction():
            await move(connection, engine, rows)
        return len(rows)
    except ASK_AGAIN:
        raise
    except Exception as error:
        if len(rows) == 1:
            log.exception("the subject of job %d (%s) refuses to be moved", rows[0]["id"], rows[0]["kind"])
            failure = failure_of(error, traceback.format_exc())
            await bury_jobs(connection, replace(engine, kinds=Kinds()), rows, "hook_failed", failure)
            return 1
    for row in rows:
        await move_jobs(connection, engine, [row], move)
    return len(rows)


async def release_claims(connection: Connection, engine: Engine, rows: Sequence[Record]) -> int:
    """Rows under lock, together with their subjects. How many."""
    return await move_jobs(connection, engine, rows, _release)


async def _release(connection: Connection, engine: Engine, rows: Sequence[Record]) -> None:
    # A release costs an attempt, or counts by itself: a file that kills its workers must end, too.
    counted = [row for row in rows if engine.kinds.find(row["kind"]).release_counts]
    uncounted = [row for row in rows if row not in counted]
    used_up = [row for row in counted if row["attempts"] >= row["max_attempts"]]
    killers = [row for row in uncounted if row["releases"] + 1 >= engine.max_releases]
    await bury_jobs(connection, engine, used_up, MAX_ATTEMPTS_EXHAUSTED)
    died = Failure(f"its worker died {engine.max_releases} times", permanent=False)
    await bury_jobs(connection, engine, killers, MAX_ATTEMPTS_EXHAUSTED, died)
    for row in (*used_up, *killers):
        await alert_of_failure(connection, engine, row, exhausted=True, dead=True)
    again = [row for row in rows if row not in used_up and row not in killers]
    if again:
        await tally(connection, Outcome.RELEASED, again)
        await store.jobs.requeue_released.rows(
            connection,
            ids=[row["id"] for row in again],
            uncounted=[row["id"] for row in uncounted],
            error=STALE_REQUEUED,
        )
        moved = [store.moved(row, reason=STALE_REQUEUED, error=STALE_REQUEUED) for row in again]
        await call_hooks(connection, engine.kinds, "on_released", moved)
        await store.recovery.count.run(connection, name="stale_recovered", amount=len(again))
        facts = {"jobs": [row["id"] for row in again], "worker": again[0]["worker_name"]}
        await raise_alert(connection, engine, "stale_job_recovered", facts)
    for row in rows:
        ids = {"job_id": row["id"], "kind": row["kind"], "owner": row["owner"], "worker": row["worker_name"]}
        tell(log, "claim_released", **ids)
