"""When the chores run: some with every claim that finds cause, all of them every minute, in one process of all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from mediamill.db.connection import ASK_AGAIN, LOST, Connection, Database
from mediamill.engine import store
from mediamill.engine.recovery.due import promote_due
from mediamill.engine.recovery.exhausted import fail_exhausted
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.janitor import bury_forgotten, forget_old
from mediamill.engine.recovery.lost_sessions import release_lost_sessions
from mediamill.engine.recovery.silent_workers import mark_silent
from mediamill.engine.recovery.stragglers import hold_stragglers, release_stragglers, reroute_orphans
from mediamill.engine.rules import Engine
from mediamill.logs import tell

log = logging.getLogger(__name__)

Chore = Callable[[Connection, Engine], Awaitable[int]]

SWEEP: tuple[Chore, ...] = (
    mark_silent,
    release_expired,
    fail_exhausted,
    promote_due,
    hold_stragglers,
    release_stragglers,
    reroute_orphans,
)
JANITOR: tuple[Chore, ...] = (bury_forgotten, forget_old)
SESSIONS_SECONDS = 1.0


async def run_chore(database: Database, engine: Engine, chore: Chore) -> int:
    """Batches, each its own transaction, until nothing is left to do."""
    total = 0
    while True:
        async with database.transaction() as connection:
            count = await chore(connection, engine)
        total += count
        if count == 0:
            return total


async def run_chores(database: Database, engine: Engine, chores: tuple[Chore, ...]) -> int:
    """One after the other; one that fails does not keep the others from running."""
    total = 0
    for chore in chores:
        try:
            total += await run_chore(database, engine, chore)
        except LOST:
            raise
        except Exception as error:
            tell(log, "chore_failed", error=error, chore=chore.__name__)
    return total


async def do_waiting_chores(database: Database, engine: Engine) -> datetime | None:
    """With every claim: look, and do what there is to do. When the next scheduled job comes due, if any."""
    async with database.connection() as connection:
        row = await store.jobs.look_for_chores.row(connection)
    assert row is not None
    if row["due"]:
        await run_chore(database, engine, promote_due)
    if row["expired"]:
        async with database.transaction() as connection:
            await release_expired(connection, engine)
    if row["exhausted"]:
        async with database.transaction() as connection:
            await fail_exhausted(connection, engine)
    due: datetime | None = row["next_due_at"]
    return due


async def recover_at_start(database: Database, engine: Engine) -> int:
    """After a crash of everything: what dead processes of this machine held goes back before anything else runs.

    Safe to run in every process that starts: it takes only from workers that are known to be gone.
    """
    return await release_lost_sessions(database, engine)


async def note_server_start(database: Database) -> None:
    """From now on the grace period counts for workers that are known by heartbeat alone."""
    async with database.connection() as connection:
        await store.recovery.note_server_start.run(connection)


async def take_turn(database: Database, name: str, every_seconds: float) -> bool:
    """Is it time, and is it us? Of all processes one does it, however many there are."""
    async with database.connection() as connection:
        taken = await store.recovery.take_turn.value(connection, name=name, every_seconds=every_seconds)
        return taken is not None


async def sweep_forever(database: Database, engine: Engine) -> None:
    """The background task of every server and every local worker. A database that is away is waited for."""
    while True:
        try:
            await release_lost_sessions(database, engine)
            if await take_turn(database, "sweep_turn", engine.sweep_seconds):
                await run_chores(database, engine, SWEEP)
            if await take_turn(database, "janitor_turn", engine.janitor_seconds):
                await run_chores(database, engine, JANITOR)
        except ASK_AGAIN as error:
            log.debug("sweep: the database is away, or somebody else was at it: %s", error)
        except Exception:
            log.exception("the sweep failed")
        await asyncio.sleep(SESSIONS_SECONDS)
