"""Moves the stored files of an installation between its data folder and its bucket, while nothing else runs."""

from __future__ import annotations

from mediamill.db.connection import Database
from mediamill.errors import ConflictError, InvalidError
from mediamill.staging import Target
from mediamill.staging.move_in import MoveIn
from mediamill.staging.move_out import MoveOut
from mediamill.staging.moving import Moved
from mediamill.staging.store import queries
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.contract import Storage
from mediamill.storage.deletions import hold_deletions
from mediamill.storage.owner import own_bucket


class StillRunningError(ConflictError):
    """Servers or workers still work on these files."""

    code = "still_running"


class NoBucketError(InvalidError):
    """No bucket is set."""

    code = "no_bucket"


async def move_files(database: Database, storage: Storage, moved: Moved, *, delete: bool = False) -> Moved:
    """To `moved.to`. `delete`: also from where they were, once all are there and nothing is wrong with them.

    Files change their names while work goes on, so that a copy made meanwhile has some twice and misses others.
    """
    if not isinstance(storage, BucketStorage):
        raise NoBucketError(
            fix="set MEDIAMILL_BUCKET: docs/how-to/buckets.md; it is needed in both directions"
        )
    await check_nobody_runs(database)
    await own_bucket(database, storage)
    with hold_deletions(storage.folder):
        run = (MoveIn if moved.to == Target.BUCKET else MoveOut)(database, storage, moved)
        await run.copy()
        await run.check()
        await check_nobody_runs(database)  # who may have started meanwhile
        if delete and not moved.faults:
            await run.delete()
    return moved


async def check_nobody_runs(database: Database) -> None:
    """StillRunningError with who does."""
    async with database.connection() as connection:
        rows = await queries.list_running.rows(connection, pooled=database.pooled)
    if rows:
        who = ", ".join(f"{row['name']} ({row['address'] or 'this machine'})" for row in rows[:5])
        raise StillRunningError(
            f"others work on this database, and with these files: {who}",
            fix="stop all servers and workers, then run it again: it goes on from what is there",
        )
