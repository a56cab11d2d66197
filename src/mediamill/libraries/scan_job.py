"""Scans as jobs: asked for by somebody or by the clock, run by a worker beside the database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Run
from mediamill.engine.model import Moved, NewJob
from mediamill.errors import ConflictError, GiveUpError, NotNowError, RetryLaterError
from mediamill.libraries.look import lock_library
from mediamill.libraries.model import ERROR_CHARACTERS, SCAN, UnknownLibraryError, id_of, owner_of
from mediamill.libraries.scan import scan_library
from mediamill.libraries.scan_model import (
    LibraryPausedError,
    ScanBusyError,
    ScanCounts,
    ScanFailedError,
    ScanLostError,
)
from mediamill.libraries.scan_state import BUSY_SECONDS
from mediamill.libraries.store import queries
from mediamill.settings import Settings

REPORT_SECONDS = 5.0


def scan_kinds(settings: Settings, database: Database | None) -> tuple[JobKind, ...]:
    """The kind, for a process with this database; one that has none cannot run it."""

    async def handle(run: Run) -> Any:
        if database is None:
            raise RetryLaterError("scans run beside the database, and this process has none")
        return await _scan(database, settings, run)

    return (
        JobKind(
            SCAN,
            handler=handle,
            on_failed=_forget,
            local=True,
            description="Reads the folders of a library, and notes which files are new, changed, renamed or gone.",
        ),
    )


async def request_scan(connection: Connection, enqueuer: Enqueuer, slug: str) -> int | None:
    """The job; None if one waits or the library is being scanned."""
    library = await lock_library(connection, slug)  # two that ask at once, and see no job of each other
    if not library["is_active"]:
        raise LibraryPausedError(f"{slug} is paused", fix=f"mediamill library resume {slug}")
    number = library["number"]
    asked = await queries.request_scan.row(connection, number=number, busy_seconds=BUSY_SECONDS)
    if asked is None:
        return None
    await queries.tell.run(connection, number=number)
    return await enqueuer.enqueue_job(
        connection,
        NewJob(SCAN, {"library": number, "slug": slug}, owner=owner_of(number), subject_id=str(number)),
    )


async def _scan(database: Database, settings: Settings, run: Run) -> dict[str, Any]:
    """Errors in the words of jobs: what may be better later, and what will not."""
    counts = ScanCounts()

    def note(now: ScanCounts) -> None:
        nonlocal counts
        counts = now

    scanning = asyncio.create_task(scan_library(database, settings, str(run.payload["slug"]), note))
    try:
        while not scanning.done():
            await asyncio.wait({scanning}, timeout=REPORT_SECONDS)
            await run.report(step=f"{counts.files} files in {counts.folders} folders")
        return (await scanning).as_dict()
    except (ScanBusyError, ScanFailedError) as error:  # one that was killed seems busy for a minute
        raise NotNowError(error.message, fix=error.fix) from error
    except ScanLostError as error:
        raise RetryLaterError(error.message, fix=error.fix) from error
    except (ConflictError, UnknownLibraryError) as error:
        raise GiveUpError(error.message, fix=error.fix) from error
    finally:
        scanning.cancel()
        await asyncio.gather(scanning, return_exceptions=True)


async def _forget(connection: Connection, jobs: Sequence[Moved]) -> None:
    """Given up: it can be asked for again."""
    for job in jobs:
        error = (job.error or job.reason or "failed")[:ERROR_CHARACTERS]
        await queries.forget_scan_request.run(connection, number=id_of(job.subject_id), error=error)
        await queries.tell.run(connection, number=id_of(job.subject_id))
