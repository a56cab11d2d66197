"""The clock by which things grow old. It runs while a server does, and for a pool while one of its workers lives too:
what waited through an outage is not older for it. The spans are kept in the database."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from mediamill.db.connection import ASK_AGAIN, Connection, Database
from mediamill.engine import store

log = logging.getLogger(__name__)

NOTE_SECONDS = 60.0
GAP_SECONDS = 150.0  # two notes further apart have an outage between them


async def note_served(database: Database) -> None:
    """A server runs, with the workers that live now."""
    async with database.transaction() as connection:
        await store.recovery.lock_served.run(connection)
        await store.recovery.note_served.run(connection, gap_seconds=GAP_SECONDS)


async def note_served_forever(database: Database) -> None:
    """The background task of every server."""
    while True:
        try:
            await note_served(database)
        except ASK_AGAIN as error:
            log.debug("the time served cannot be noted: %s", error)
        except Exception:
            log.exception("the time served cannot be noted")
        await asyncio.sleep(NOTE_SECONDS)


async def server_cutoff(connection: Connection, seconds: float) -> datetime | None:
    """Since when servers have run for so long, all together; None if they have not."""
    found: datetime | None = await store.recovery.served_cutoff.value(connection, pool="", seconds=seconds)
    return found
