"""The janitor of uploads: what a crash left unfinished becomes a video, what nobody goes on with is deleted."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import LOST
from mediamill.errors import MediamillError
from mediamill.staging.resumable import FOLDER, PartMissingError, UploadLockedError, hold_part
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from mediamill.videos.upload import Uploads
from mediamill.videos.upload_store import queries

log = logging.getLogger(__name__)

BATCH = 500
ORPHAN_SECONDS = 3600.0  # a file gets its row in a moment; one that has none after so long lost it
NIL = UUID(int=0)


async def finish_uploads(uploads: Uploads) -> None:
    """All of them, once: after a start and now and then."""
    after = NIL
    while True:
        async with uploads.database.connection() as connection:
            rows = await queries.unfinished_uploads.rows(connection, after=after, amount=BATCH)
        for row in rows:
            await _look_after(uploads, row)
        if len(rows) < BATCH:
            break
        after = rows[-1]["id"]
    async with uploads.database.connection() as connection:
        await queries.forget_finished.run(connection)
    await _delete_orphans(uploads)


async def finish_uploads_forever(uploads: Uploads, every_seconds: float) -> None:
    """The background task of the server."""
    while True:
        try:
            await finish_uploads(uploads)
        except LOST as error:
            log.debug("uploads: the database is away: %s", error)
        except Exception:
            log.exception("the sweep of uploads failed")
        await asyncio.sleep(every_seconds)


async def _look_after(uploads: Uploads, row: Record) -> None:
    """One that cannot be helped does not keep the others from it."""
    try:
        if await uploads.expire(row):
            log.info("upload %s, which nobody went on with, is deleted", row["id"])
            return
    except UploadLockedError:
        return
    except PartMissingError:
        pass
    try:
        await uploads.finish(row)
    except PartMissingError:
        log.info("upload %s, whose file is gone, is forgotten", row["id"])
    except MediamillError as error:
        log.warning("upload %s did not become a video: %s", row["id"], error.message)


async def _delete_orphans(uploads: Uploads) -> None:
    """Files whose rows are gone, or never came to be."""
    storage = storage_of(uploads.settings)
    if isinstance(storage, BucketStorage):
        await _delete_orphans_there(uploads, storage)
    data = uploads.settings.data_folder
    old = await asyncio.to_thread(_old_parts, data / FOLDER, time.time() - ORPHAN_SECONDS)
    for first in range(0, len(old), BATCH):
        batch = old[first : first + BATCH]
        async with uploads.database.connection() as connection:
            known = {row["id"] for row in await queries.known_uploads.rows(connection, ids=batch)}
        for upload_id in batch:
            if upload_id not in known:
                with suppress(MediamillError), hold_part(data, upload_id) as part:
                    await part.delete()
                    log.info("file of upload %s, which nobody knows, is deleted", upload_id)


async def _delete_orphans_there(uploads: Uploads, storage: BucketStorage) -> None:
    async for batch in storage.old_files(uploads.database, FOLDER, ORPHAN_SECONDS):
        names = {UUID(name.rpartition("/")[2]): name for name in batch}
        async with uploads.database.transaction() as connection:
            known = {row["id"] for row in await queries.known_uploads.rows(connection, ids=list(names))}
            await storage.drop(connection, *(name for one, name in names.items() if one not in known))


def _old_parts(folder: Path, older_than: float) -> list[UUID]:
    """Plain files with the name of an upload; anything else is not ours, and is left alone."""
    found = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(ValueError, FileNotFoundError):
                upload_id = UUID(entry.name)
                facts = entry.stat(follow_symlinks=False)
                if str(upload_id) == entry.name and facts.st_mtime < older_than:
                    found.append(upload_id)
    return found
