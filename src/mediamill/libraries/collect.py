"""The garbage collector: folders of derivatives that no asset shows, and assets whose files went long ago.

A folder is looked at first, and what names it afterwards, in one statement: files that a worker has just moved there
have their job in that look, or are the asset's output already. Shard by shard, so that millions of folders need no more
memory than a thousandth of them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mediamill.db.connection import Database
from mediamill.libraries.model import FOLDER, SHARDS
from mediamill.libraries.store import queries
from mediamill.staging.kept import forget_kept
from mediamill.storage.batches import in_batches
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Storage
from mediamill.storage.deletions import deletions_wait

log = logging.getLogger(__name__)

BATCH = 1_000
VANISHED_BATCH = 500
_NAME = re.compile(r"([1-9][0-9]{0,17})-([1-9][0-9]{0,17})-([0-9]{1,18})", re.ASCII)


@dataclass(slots=True)
class Collected:
    """What was looked at, and what is gone."""

    looked_at: int = 0
    folders: int = 0
    assets: int = 0


@dataclass(frozen=True, slots=True)
class _Output:
    folder: str
    asset_id: int
    job_id: int
    output: str


async def collect_garbage(
    database: Database, place: Place, older_than_seconds: float = 3600, vanished_days: int = 0
) -> Collected:
    """All shards, once. `vanished_days`: files that have been gone for longer are forgotten; 0: none."""
    storage, collected = storage_at(place), Collected()
    if vanished_days:
        collected.assets = await forget_vanished(database, vanished_days)
    async for shard in storage.old_folders(database, FOLDER, older_than_seconds):
        old = [output for folder in shard if (output := _output_of(folder))]
        collected.looked_at += len(old)
        for batch in in_batches(old, BATCH):
            collected.folders += await _collect(database, storage, batch)
    if collected.folders:
        log.info("libraries: %d folders that nothing names any more are deleted", collected.folders)
    return collected


async def forget_vanished(database: Database, days: int) -> int:
    """Assets whose files have not been seen for so long, with all that was known of them. How many."""
    total = 0
    while True:
        async with database.transaction() as connection:
            gone = await queries.forget_vanished.rows(connection, days=days, batch=VANISHED_BATCH)
            await forget_kept(connection, [row["job_id"] for row in gone if row["job_id"] is not None])
        total += len(gone)
        if len(gone) < VANISHED_BATCH:
            return total


async def _collect(database: Database, storage: Storage, outputs: Sequence[_Output]) -> int:
    async with database.connection() as connection:
        rows = await queries.unnamed_outputs.rows(
            connection,
            ids=[one.asset_id for one in outputs],
            jobs=[one.job_id for one in outputs],
            outputs=[one.output for one in outputs],
        )
    unnamed = {(row["id"], row["output"]) for row in rows}
    if deletions_wait(storage.folder):
        return 0
    gone = [one.folder for one in outputs if (one.asset_id, one.output) in unnamed]
    await storage.remove(database, gone)
    return len(gone)


def _output_of(folder: str) -> _Output | None:
    """What has another name, or lies in another's shard, is not ours."""
    _, shard, last = folder.split("/")
    name = _NAME.fullmatch(last)
    if name is None or f"{int(name[1]) % SHARDS:03}" != shard:
        return None
    return _Output(folder, int(name[1]), int(name[2]), f"{name[2]}-{name[3]}")
