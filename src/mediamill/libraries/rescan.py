"""Libraries that are to be scanned every so often, or whose scan was killed: a job for each that is due."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from mediamill.db.connection import LOST, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.libraries.model import UnknownLibraryError
from mediamill.libraries.scan_job import request_scan
from mediamill.libraries.scan_model import LibraryPausedError
from mediamill.libraries.scan_state import BUSY_SECONDS
from mediamill.libraries.store import queries

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0


async def rescan_forever(database: Database, enqueuer: Enqueuer) -> None:
    """For the server; several servers may do it at once."""
    while True:
        try:
            await request_due_scans(database, enqueuer)
        except LOST as error:
            log.debug("asking for scans: the database is away: %s", error)
        except Exception:
            log.exception("asking for scans failed")
        await asyncio.sleep(EVERY_SECONDS)


async def request_due_scans(database: Database, enqueuer: Enqueuer) -> int:
    """Counted from when the last one began or ended: one that fails is tried again no sooner. How many."""
    async with database.connection() as connection:
        due = await queries.due_scans.rows(connection, busy_seconds=BUSY_SECONDS)
    requested = 0
    for row in due:
        with suppress(LibraryPausedError, UnknownLibraryError):  # since just now
            async with database.transaction() as connection:
                requested += await request_scan(connection, enqueuer, row["slug"]) is not None
    return requested
