"""Chore, hourly: jobs that nobody moves go to the dead letter, and what was kept long enough is forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.flight_dumps import forget_dumps
from mediamill.engine.model import ABANDONED
from mediamill.engine.recovery.release import BATCH, move_jobs
from mediamill.engine.rules import Engine
from mediamill.engine.settle import bury_jobs

FORGET_BATCH = 5_000
PAGE = 5_000


async def bury_forgotten(connection: Connection, engine: Engine) -> int:
    """One batch of jobs older than their pool allows that nobody moved. Their kinds delete their files.

    Goes through the jobs from the oldest on and ends where all are young: a long queue costs nothing.
    """
    after = 0
    while True:
        page = await store.recovery.next_page_of_jobs.row(connection, after=after, page=PAGE)
        if page is None or page["last_id"] is None or page["young"]:
            return 0
        rows = await store.recovery.lock_forgotten.rows(
            connection, after=after, last_id=page["last_id"], batch=BATCH
        )
        if rows:
            return await move_jobs(connection, engine, rows, _bury)
        after = page["last_id"]


async def _bury(connection: Connection, engine: Engine, rows: Sequence[Record]) -> None:
    await bury_jobs(connection, engine, rows, ABANDONED)


async def forget_old(connection: Connection, engine: Engine) -> int:
    """One batch of finished jobs, keys, events, figures and workers that were kept long enough."""
    finished, events = engine.finished_keep_hours, engine.events_keep_hours
    count = await store.recovery.forget_finished.run(connection, keep_hours=finished, batch=FORGET_BATCH)
    count += await store.recovery.forget_keys.run(connection, keep_hours=finished, batch=FORGET_BATCH)
    count += await store.recovery.forget_events.run(connection, keep_hours=events, batch=FORGET_BATCH)
    await store.recovery.forget_throughput.run(connection)
    await store.recovery.forget_workers.run(connection)
    await store.alerts.forget_sent.run(connection)
    await forget_dumps(connection, most=engine.flight_dumps, keep_days=engine.flight_dumps_keep_days)
    return count


async def abandon_subjects(connection: Connection, engine: Engine, subject_ids: Sequence[str]) -> int:
    """Jobs of subjects that somebody else found forgotten (a placeholder in memory). What runs is left to its lease."""
    rows = await store.recovery.lock_waiting_of_subjects.rows(connection, subject_ids=list(subject_ids))
    return await move_jobs(connection, engine, rows, _bury)
