"""Delivery: a result that was saved is handed over once, and its job leaves in the same transaction."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Sequence
from dataclasses import replace

from asyncpg import DeadlockDetectedError, Record, SerializationError

from mediamill import traces
from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Connection, Database
from mediamill.db.notify import Listener
from mediamill.engine import store
from mediamill.engine.kinds import call_hooks
from mediamill.engine.model import Moved, failure_of
from mediamill.engine.rules import Engine
from mediamill.engine.settle import bury_jobs
from mediamill.errors import RetryLaterError
from mediamill.logs import tell

log = logging.getLogger(__name__)

BATCH = 100
POLL_SECONDS = 5.0


async def deliver_results(database: Database, engine: Engine) -> int:
    """Deliver what waits, of owners that are not on hold. How many were delivered."""
    try:
        async with database.transaction() as connection:
            return await _deliver(connection, engine, BATCH)
    except LOST:
        raise
    except Exception:
        log.exception("a delivery failed; delivering one by one")
    return await _deliver_singly(database, engine)


async def reap_results(connection: Connection, owners: Sequence[str], batch: int = BATCH) -> list[Moved]:
    """The results of these owners, taken for good: whoever asks again, or at the same time, finds none."""
    rows = await store.jobs.lock_results_of_owners.rows(connection, owners=owners, batch=batch)
    with traces.spans("deliver", [row["trace"] for row in rows]):
        await store.jobs.finish_delivered.run(connection, ids=[row["id"] for row in rows])
    return [store.moved(row, result=json.loads(row["result"] or "null")) for row in rows]


async def _deliver(connection: Connection, engine: Engine, batch: int) -> int:
    rows = await store.jobs.lock_results.rows(
        connection, kinds=engine.kinds.delivered(), batch=batch, later=[]
    )
    await _hand_over(connection, engine, rows)
    return len(rows)


async def _hand_over(connection: Connection, engine: Engine, rows: Sequence[Record]) -> None:
    results = [store.moved(row, result=json.loads(row["result"] or "null")) for row in rows]
    with traces.spans("deliver", [row["trace"] for row in rows]):
        await call_hooks(connection, engine.kinds, "deliver", results)
        await store.jobs.finish_delivered.run(connection, ids=[row["id"] for row in rows])


async def _deliver_singly(database: Database, engine: Engine) -> int:
    """One transaction each. A result that nobody takes goes to the dead letter, and can be delivered from there;
    one whose delivery may work later waits for the next look.
    """
    delivered, later = 0, list[int]()
    for _ in range(BATCH):
        async with database.transaction() as connection:
            # Locked outside of the savepoint: after a failure it must be this very job that is buried.
            rows = await store.jobs.lock_results.rows(
                connection, kinds=engine.kinds.delivered(), batch=1, later=later
            )
            if not rows:
                break
            try:
                async with connection.transaction():
                    await _hand_over(connection, engine, rows)
                    delivered += 1
            except LOST:
                raise
            except (RetryLaterError, DeadlockDetectedError, SerializationError) as error:
                tell(log, "delivery_put_off", job_id=rows[0]["id"], owner=rows[0]["owner"], reason=str(error))
                later.append(rows[0]["id"])
            except Exception as error:
                failure = replace(failure_of(error, traceback.format_exc()), permanent=True)
                await bury_jobs(connection, engine, rows, "delivery_failed", failure)
    return delivered


async def deliver_forever(database: Database, engine: Engine) -> None:
    """The background task of the server: woken when a result is saved, with a look now and then in any case."""
    waiting = asyncio.Event()
    listener = Listener(
        database.url, ["mediamill_results"], lambda *_: waiting.set(), name="mediamill deliveries"
    )
    await listener.start()
    try:
        while True:
            waiting.clear()
            try:
                while await deliver_results(database, engine):
                    pass
            except LOST as error:
                log.debug("delivery: the database is away: %s", error)
            except Exception:
                log.exception("the delivery failed")
            await wait_at_most(waiting, POLL_SECONDS)
    finally:
        await listener.close()
