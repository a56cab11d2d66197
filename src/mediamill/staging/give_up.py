"""Staged files are deleted here, and the database decides which: a job that is requeued just now keeps its file, and
one whose file goes is not requeued any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from mediamill.db.connection import Connection, Database
from mediamill.engine.dead import give_up_files, unnamed_files
from mediamill.engine.watch import subjects_at_work
from mediamill.staging import FAILED, FOLDER
from mediamill.staging.file_names import to_text
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Storage
from mediamill.storage.deletions import deletions_wait

log = logging.getLogger(__name__)


async def delete_unused(database: Database, storage: Storage, paths: Sequence[Path]) -> int:
    """Those of these local files that nobody needs, each named after its guid. How many."""
    if deletions_wait(storage.folder):
        return 0  # and no job is told that its file is gone
    guids = [to_text(path.name) for path in paths]
    async with database.transaction() as connection:
        # Beside a bucket, the file of a job is there; this is a copy that was left behind.
        if isinstance(storage, BucketStorage):
            unused = set(guids) - await subjects_at_work(connection, guids)
        else:
            unused = await give_up_files(connection, guids)
    if deletions_wait(storage.folder):
        return 0
    gone = [path for path, guid in zip(paths, guids, strict=True) if guid in unused]
    return await asyncio.to_thread(lambda: sum(map(_delete, gone)))


async def drop_staged(
    connection: Connection, place: Place, guids: Sequence[str], *, give_up: bool = True
) -> None:
    """These staged files go with the transaction, unless somebody needs them; what cannot go now is left to the sweep.

    `give_up`: a dead job that names one is not requeued any more; else it keeps its file.
    """
    storage = storage_at(place)
    if deletions_wait(storage.folder):
        return
    decide = give_up_files if give_up else unnamed_files
    unused = await decide(connection, guids)
    await storage.drop(connection, *(f"{folder}/{guid}" for folder in (FOLDER, FAILED) for guid in unused))


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:  # somebody else was first
        return False
    except OSError as error:
        log.warning("staged file %s cannot be deleted: %s", path.name, error)
        return False
    log.info("staged file %s, which no job names, is deleted", path.name)
    return True
