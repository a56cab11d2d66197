"""Whose scan it is: one at a time for each library, begun, told of, and ended under its token.

A scan that was killed is taken over when nothing was heard of it for a minute, from the folder that it had come to.
One that was stopped, or is long ago, begins again: what it has found is known, and costs no more than to look.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from asyncpg import DeadlockDetectedError, Record

from mediamill.db.connection import Connection, Database
from mediamill.libraries.model import ERROR_CHARACTERS, UnknownLibraryError
from mediamill.libraries.scan_model import LibraryPausedError, ScanBusyError, ScanCounts, ScanLostError
from mediamill.libraries.store import queries

BUSY_SECONDS = 60
RESUME_SECONDS = 6 * 3600
TRIES = 5


@dataclass(frozen=True, slots=True)
class ScanClaim:
    """`newest`: the newest asset when it began, 0 if the library had none; `after`: the last folder that is done."""

    number: int
    slug: str
    root: str
    token: int
    started_at: datetime
    newest: int
    after: str | None
    counts: ScanCounts

    def told(self, counts: ScanCounts) -> str:
        """What is saved of it."""
        return json.dumps({**counts.as_dict(), "newest": self.newest})


async def begin_scan(database: Database, slug: str) -> ScanClaim:
    """Ours from now on; whoever had it before notices with its next write."""
    async with database.transaction() as connection:
        row = await queries.lock_scan.row(
            connection, slug=slug, busy_seconds=BUSY_SECONDS, resume_seconds=RESUME_SECONDS
        )
        _check(slug, row)
        assert row is not None
        saved: dict[str, Any] = json.loads(row["scan_counts"])
        resume = row["scan_status"] == "scanning" and row["is_recent"] and row["scan_at"] is not None
        if not resume:
            saved = {"newest": await queries.newest_asset.value(connection, library=row["number"])}
        begun = await queries.begin_scan.row(
            connection, number=row["number"], resume=resume, counts=json.dumps(saved)
        )
        assert begun is not None
        await queries.tell.run(connection, number=row["number"])
    return ScanClaim(
        row["number"],
        slug,
        row["absolute_path"],
        begun["scan_token"],
        begun["scan_started_at"],
        saved["newest"],
        row["scan_at"] if resume else None,
        ScanCounts.read(saved),
    )


def _check(slug: str, row: Record | None) -> None:
    if row is None:
        raise UnknownLibraryError(
            f"there is no library {slug[:100]!r}", fix="mediamill library list shows them"
        )
    if not row["is_active"]:
        raise LibraryPausedError(f"{slug} is paused", fix=f"mediamill library resume {slug}")
    if row["scan_status"] == "scanning" and row["is_alive"]:
        raise ScanBusyError(
            f"{slug} is being scanned since {row['scan_started_at']:%Y-%m-%d %H:%M:%S %Z}",
            fix=f"wait for it; one that was killed can be taken over after {BUSY_SECONDS} s",
        )


async def hold_scan(connection: Connection, claim: ScanClaim) -> None:
    """First of all in every transaction that writes."""
    if await queries.hold_scan.row(connection, number=claim.number, token=claim.token) is None:
        raise ScanLostError(f"another scan of {claim.slug} has taken over")


async def again_if_deadlocked(write: Callable[[], Awaitable[None]]) -> None:
    """A transaction, once more if its rows were locked crosswise with those of jobs that ended just now."""
    for attempt in range(1, TRIES + 1):
        try:
            await write()
            return
        except DeadlockDetectedError:
            if attempt == TRIES:
                raise


async def beat(database: Database, claim: ScanClaim) -> None:
    """It goes on, however slow the folders are."""
    async with database.connection() as connection:
        if not await queries.beat.run(connection, number=claim.number, token=claim.token):
            raise ScanLostError(f"another scan of {claim.slug} has taken over")


async def finish_scan(database: Database, claim: ScanClaim, counts: ScanCounts) -> None:
    """To its end."""
    async with database.transaction() as connection:
        await hold_scan(connection, claim)
        if not counts.left_alone:  # else it may still be away
            await queries.retry_missed.run(connection, number=claim.number)
        told = claim.told(counts)
        await queries.finish_scan.run(connection, number=claim.number, token=claim.token, counts=told)
        await queries.tell.run(connection, number=claim.number)


async def stop_scan(database: Database, claim: ScanClaim, error: str | None) -> None:
    """Not to its end; if it is ours no more, whoever has it goes on."""
    short = None if error is None else error[:ERROR_CHARACTERS]
    async with database.transaction() as connection:
        if await queries.stop_scan.run(connection, number=claim.number, token=claim.token, error=short):
            await queries.tell.run(connection, number=claim.number)
