"""The garbage collector: folders of derivatives that no asset shows, and assets whose files went long ago.

A folder is looked at first, and what names it afterwards, in one statement: files that a worker has just moved there
have their job in that look, or are the asset's output already. Shard by shard, so that millions of folders need no more
memory than a thousandth of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mediamill.db.connection import Database
from mediamill.libraries.model import FOLDER, SHARDS
from mediamill.libraries.store import queries
from mediamill.staging.kept import forget_kept

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
    folder: Path
    asset_id: int
    job_id: int
    output: str


async def collect_garbage(
    database: Database, data_folder: Path, older_than_seconds: float = 3600, vanished_days: int = 0
) -> Collected:
    """All shards, once. `vanished_days`: files that have been gone for longer are forgotten; 0: none."""
    collected = Collected()
    if vanished_days:
        collected.assets = await forget_vanished(database, vanished_days)
    for shard in range(SHARDS):
        root = data_folder / FOLDER / f"{shard:03}"
        old = await asyncio.to_thread(_old_outputs, root, shard, time.time() - older_than_seconds)
        collected.looked_at += len(old)
        for first in range(0, len(old), BATCH):
            collected.folders += await _collect(database, old[first : first + BATCH])
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


async def _collect(database: Database, outputs: Sequence[_Output]) -> int:
    async with database.connection() as connection:
        rows = await queries.unnamed_outputs.rows(
            connection,
            ids=[one.asset_id for one in outputs],
            jobs=[one.job_id for one in outputs],
            outputs=[one.output for one in outputs],
        )
    unnamed = {(row["id"], row["output"]) for row in rows}
    gone = [one.folder for one in outputs if (one.asset_id, one.output) in unnamed]
    await asyncio.to_thread(_remove, gone)
    return len(gone)


def _old_outputs(root: Path, shard: int, older_than: float) -> list[_Output]:
    """What has another name, lies in another's shard, or is a link, is not ours."""
    found = []
    try:
        if root.is_symlink():
            return []
        with os.scandir(root) as entries:
            for entry in entries:
                name = _NAME.fullmatch(entry.name)
                if name is None or int(name[1]) % SHARDS != shard:
                    continue
                if entry.is_dir(follow_symlinks=False) and _changed_at(entry) <= older_than:
                    found.append(
                        _Output(Path(entry.path), int(name[1]), int(name[2]), f"{name[2]}-{name[3]}")
                    )
    except FileNotFoundError:
        return []
    return found


def _changed_at(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return time.time()


def _remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)  # which does not follow links
