"""Staged media where every machine finds them. In the data folder they lie there already; in a bucket they are put by
whoever enqueues their job, in its transaction, and the local file goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from mediamill.db.connection import Connection, Database, after_commit
from mediamill.engine.dead import give_up_files
from mediamill.staging import FAILED, FOLDER, staging_folder
from mediamill.staging.failed import MOST_BYTES
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Sent, Storage


async def send_staged(place: Place, guid: str) -> Sent | None:
    """Before the transaction. None: it needs not be sent, or is not there."""
    storage = storage_at(place)
    path = staging_folder(storage.folder) / guid
    return await storage.send(path) if isinstance(storage, BucketStorage) and path.is_file() else None


async def name_staged(connection: Connection, place: Place, guid: str, sent: Sent | None) -> None:
    """In the transaction of its job."""
    if sent is not None:
        await storage_at(place).give_name(connection, sent, f"{FOLDER}/{guid}")
        path: Path = sent.path
        after_commit(connection, lambda: path.unlink(missing_ok=True))


async def end_shared(database: Database, storage: Storage, guid: str, *, keep: bool) -> None:
    """The job has ended: what is in the bucket is deleted, or put aside."""
    if not isinstance(storage, BucketStorage):
        return
    async with database.transaction() as connection:
        if keep:
            await storage.rename(connection, f"{FOLDER}/{guid}", f"{FAILED}/{guid}")
            oldest = await storage.beyond_room(connection, FAILED, MOST_BYTES)
            await _drop_unused(connection, storage, oldest)
        else:
            await storage.drop(connection, f"{FOLDER}/{guid}", f"{FAILED}/{guid}")


async def sweep_shared(
    database: Database, storage: Storage, keep_seconds: float, failed_keep_seconds: float
) -> int:
    """Drop staged media in the bucket that are older than this and that no job names. How many."""
    if not isinstance(storage, BucketStorage):
        return 0
    dropped = 0
    for folder, seconds in ((FOLDER, keep_seconds), (FAILED, failed_keep_seconds)):
        async for batch in storage.old_files(database, folder, seconds):
            async with database.transaction() as connection:
                dropped += await _drop_unused(connection, storage, batch)
    return dropped


async def _drop_unused(connection: Connection, storage: BucketStorage, names: Sequence[str]) -> int:
    """Those that nobody needs, decided as for local files (`give_up.py`). How many."""
    if not names:
        return 0
    guids = {name: name.rpartition("/")[2] for name in names}
    unused = await give_up_files(connection, list(guids.values()))
    gone = [name for name, guid in guids.items() if guid in unused]
    await storage.drop(connection, *gone)
    return len(gone)


def shared_bytes(database: Database, place: Place) -> Callable[[], Awaitable[int]] | None:
    """How much the staged media in the bucket take up; None if there is no bucket."""
    storage = storage_at(place)
    if not isinstance(storage, BucketStorage):
        return None

    async def measure() -> int:
        async with database.connection() as connection:
            return sum([await storage.size_in(connection, folder) for folder in (FOLDER, FAILED)])

    return measure
