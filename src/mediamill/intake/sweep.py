"""The janitor of intake: bytes and outputs that nothing names any more, analyses without files, parts of uploads.

Bytes are removed under the lock of their content, which whoever adds a file takes before it puts bytes in place: what
is about to be named is never removed. Outputs are looked at first, and what names them afterwards, in one statement.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from pathlib import Path

from mediamill.db.connection import LOST, Database
from mediamill.intake.analyse import lock_content
from mediamill.intake.model import FILES, OUTPUTS, PARTS
from mediamill.intake.orphans import drop_orphans
from mediamill.intake.store import queries
from mediamill.settings import Settings
from mediamill.storage.batches import in_batches
from mediamill.storage.choose import Place, storage_at, storage_of
from mediamill.storage.contract import Storage
from mediamill.storage.deletions import deletions_wait

log = logging.getLogger(__name__)

BATCH = 1_000
OLD_SECONDS = 3600.0
PART_SECONDS = 24 * 3600.0  # the longest that a single upload may take
_SHA = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OUTPUT = re.compile(r"([1-9][0-9]{0,17})-([1-9][0-9]{0,17})-[0-9]{1,19}", re.ASCII)


async def sweep_intake(
    database: Database, settings: Settings, older_than_seconds: float = OLD_SECONDS
) -> int:
    """One round. How many things are gone."""
    storage = storage_of(settings)
    return (
        await sweep_orphans(database, older_than_seconds)
        + await sweep_blobs(database, storage, older_than_seconds)
        + await sweep_outputs(database, storage, older_than_seconds)
        + await asyncio.to_thread(sweep_parts, storage.folder, max(older_than_seconds, PART_SECONDS))
    )


async def sweep_intake_forever(database: Database, settings: Settings) -> None:
    """The background task of the server."""
    while True:
        try:
            await sweep_intake(database, settings)
        except LOST as error:
            log.debug("intake: the database is away: %s", error)
        except Exception:
            log.exception("the sweep of project files failed")
        await asyncio.sleep(settings.janitor_seconds)


async def sweep_orphans(database: Database, older_than_seconds: float = OLD_SECONDS) -> int:
    """Analyses that lost their last file to two deletions at the same time."""
    total = 0
    while True:
        async with database.transaction() as connection:
            rows = await queries.orphans.rows(connection, older_than_seconds=older_than_seconds, batch=BATCH)
            gone = await drop_orphans(connection, [row["id"] for row in rows])
        total += gone
        if gone < BATCH:
            return total


async def sweep_blobs(database: Database, place: Place, older_than_seconds: float = OLD_SECONDS) -> int:
    """Bytes of contents that no analysis is of."""
    storage, removed = storage_at(place), 0
    async for old in storage.old_files(database, FILES, older_than_seconds):
        for batch in in_batches([name for name in old if _is_blob(name)], BATCH):
            contents = {bytes.fromhex(name.rpartition("/")[2]): name for name in batch}
            async with database.connection() as connection:
                rows = await queries.known_contents.rows(connection, contents=list(contents))
            for sha256 in contents.keys() - {row["sha256"] for row in rows}:
                removed += await _remove_blob(database, storage, sha256, contents[sha256])
    return removed


async def _remove_blob(database: Database, storage: Storage, sha256: bytes, name: str) -> int:
    """Looked up once more now that nobody adds it."""
    async with database.transaction() as connection:
        await lock_content(connection, sha256)
        if await queries.known_contents.rows(connection, contents=[sha256]) or deletions_wait(storage.folder):
            return 0
        await storage.remove_now(connection, name)
    log.info("file %s, which no project has any more, is deleted", name.rpartition("/")[2])
    return 1


async def sweep_outputs(database: Database, place: Place, older_than_seconds: float = OLD_SECONDS) -> int:
    """Pictures and texts that no analysis shows, and whose job has ended."""
    storage, removed = storage_at(place), 0
    async for old in storage.old_folders(database, OUTPUTS, older_than_seconds):
        for batch in in_batches([folder for folder in old if _OUTPUT.fullmatch(_last(folder))], BATCH):
            names = [match for folder in batch if (match := _OUTPUT.fullmatch(_last(folder)))]
            async with database.connection() as connection:
                rows = await queries.unnamed_outputs.rows(
                    connection,
                    outputs=list(batch),
                    ids=[int(name[1]) for name in names],
                    jobs=[int(name[2]) for name in names],
                )
            if deletions_wait(storage.folder):
                return removed
            await storage.remove(database, [row["output"] for row in rows])
            removed += len(rows)
    return removed


def sweep_parts(data_folder: Path, older_than_seconds: float) -> int:
    """Of uploads that were cut off with their process."""
    removed = 0
    for entry in _entries(data_folder / PARTS):
        if entry.is_file(follow_symlinks=False) and _changed_at(entry) < time.time() - older_than_seconds:
            Path(entry.path).unlink(missing_ok=True)
            removed += 1
    return removed


def _is_blob(name: str) -> bool:
    """What has another name is not ours."""
    shard, last = name.split("/")[-2:]
    return _SHA.fullmatch(last) is not None and last.startswith(shard)


def _last(folder: str) -> str:
    return folder.rpartition("/")[2]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _changed_at(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return time.time()
