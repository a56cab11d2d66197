"""Chore: local workers whose database session is gone. Their process is dead, here or on another machine.

A worker holds an advisory lock by its session. Whoever runs this looks through the list of locks: a worker
without one is stamped, and released after the grace period, or at once if its process is known to be gone
from this machine. The release itself takes the worker's lock, so that it cannot come back in the middle.
"""

from __future__ import annotations

import logging

from mediamill.db.connection import Connection, Database
from mediamill.engine import store
from mediamill.engine.recovery.release import BATCH, release_claims
from mediamill.engine.rules import Engine
from mediamill.engine.workers import is_process_dead, tell_worker

log = logging.getLogger(__name__)


async def release_lost_sessions(database: Database, engine: Engine) -> int:
    """All workers that are lost now; how many jobs went back."""
    async with database.connection() as connection:
        await store.recovery.note_sessions.rows(connection, lock_class=store.WORKER_LOCKS)
        workers = await store.recovery.list_lost_workers.rows(
            connection, session_grace_seconds=engine.session_grace_seconds
        )
    released = 0
    for worker in workers:
        if worker["over"] or (worker["process"] and is_process_dead(worker["process"])):
            released += await release_worker(database, engine, worker["id"])
    return released


async def release_worker(database: Database, engine: Engine, worker_id: int) -> int:
    """Everything that a lost worker held, in batches; it is offline in the transaction that takes the last."""
    released = 0
    while True:
        async with database.transaction() as connection:
            count, done = await _release_batch(connection, engine, worker_id)
        released += count
        if done:
            return released


async def _release_batch(connection: Connection, engine: Engine, worker_id: int) -> tuple[int, bool]:
    free = await store.recovery.try_session_lock.value(
        connection, lock_class=store.WORKER_LOCKS, worker_id=worker_id
    )
    if not free:
        return 0, True
    rows = await store.recovery.lock_claims_of_worker.rows(connection, worker_id=worker_id, batch=BATCH)
    await release_claims(connection, engine, rows)
    if len(rows) == BATCH:
        return len(rows), False
    gone = await store.recovery.mark_lost.row(connection, worker_id=worker_id)
    if gone is not None:
        log.warning("worker %s is lost, %d of its jobs go back to the queue", gone["name"], len(rows))
        if gone["state"] == "offline":
            await tell_worker(connection, worker_id, gone["name"], "offline")
    return len(rows), True
