"""The janitor of the staging folders: old files that no job names are deleted, waiting or put aside."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from mediamill.db.connection import LOST, Database
from mediamill.engine.recovery.served import server_cutoff
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.awaited import forget_awaited
from mediamill.staging.derivatives import sweep_derivatives
from mediamill.staging.give_up import delete_unused
from mediamill.staging.kept import sweep_kept
from mediamill.staging.shared import sweep_shared
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Storage
from mediamill.storage.folder import FolderStorage

log = logging.getLogger(__name__)

BATCH = 1_000


async def sweep_staging(database: Database, place: Place, keep_seconds: float) -> int:
    """Delete staged files older than this that no job names. How many.

    The look at the jobs comes after the look at the file's age, so that a file whose job was enqueued meanwhile
    is found named; one that is older than the limit and still has no job lost its job to a crash.
    """
    storage = storage_at(place)
    return await _sweep(database, storage, staging_folder(storage.folder), keep_seconds)


async def sweep_failed(database: Database, place: Place, keep_seconds: float) -> int:
    """Delete files of failed jobs that were kept for another try, unless they are being tried. How many."""
    storage = storage_at(place)
    return await _sweep(database, storage, failed_folder(storage.folder), keep_seconds)


async def _sweep(database: Database, storage: Storage, folder: Path, keep_seconds: float) -> int:
    old = await asyncio.to_thread(_old_files, folder, time.time() - keep_seconds)
    deleted = 0
    for first in range(0, len(old), BATCH):
        deleted += await delete_unused(database, storage, old[first : first + BATCH])
    return deleted


async def sweep_staging_forever(
    database: Database,
    place: Place,
    *,
    keep_seconds: float,
    failed_keep_seconds: float,
    every_seconds: float,
) -> None:
    """The background task of the server. Time in which there was none does not count."""
    storage = storage_at(place)
    places = [storage] if isinstance(storage, FolderStorage) else [storage, FolderStorage(storage.folder)]
    while True:
        try:
            staged_age, failed_age = await _ages(database, keep_seconds, failed_keep_seconds)
            await sweep_staging(database, storage, staged_age)
            await sweep_failed(database, storage, failed_age)
            async with database.connection() as connection:
                await forget_awaited(connection)
            for each in places:  # beside a bucket, the folder has what was on its way there
                await sweep_derivatives(database, each)
                await sweep_kept(database, each)
            await sweep_shared(database, storage, staged_age, failed_age)
        except LOST as error:
            log.debug("staging: the database is away: %s", error)
        except Exception:
            log.exception("the sweep of staged files failed")
        await asyncio.sleep(every_seconds)


async def _ages(database: Database, *seconds: float) -> list[float]:
    """How old a file is once servers have run for so long since; older than anything if they have not yet."""
    async with database.connection() as connection:
        cutoffs = [await server_cutoff(connection, each) for each in seconds]
    return [time.time() - (cutoff.timestamp() if cutoff else 0) for cutoff in cutoffs]


def _old_files(folder: Path, older_than: float) -> list[Path]:
    """Plain files only: a link or a folder is nothing that we staged, and is left alone."""
    try:
        with os.scandir(folder) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.is_file(follow_symlinks=False)
                and entry.stat(follow_symlinks=False).st_mtime < older_than
            ]
    except FileNotFoundError:
        return []
