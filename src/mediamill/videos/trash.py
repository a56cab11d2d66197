"""Deleted videos wait in the trash, their jobs held, until they are restored or erased."""

from __future__ import annotations

import logging
from contextlib import suppress
from uuid import UUID

from mediamill.db.connection import Connection, Database
from mediamill.engine.dead import purge_dead
from mediamill.engine.hold import forget_owner, hold_owner, release_owner
from mediamill.errors import ConflictError
from mediamill.storage.choose import Place, storage_at
from mediamill.videos.again import lock_video
from mediamill.videos.findable import note_findable
from mediamill.videos.model import UnknownVideoError, owner_of, video_folder
from mediamill.videos.store import queries

log = logging.getLogger(__name__)

BATCH = 100


class NotInTrashError(ConflictError):
    """The video is not in the trash."""

    code = "not_in_trash"


class InTrashError(ConflictError):
    """The video is in the trash already."""

    code = "in_trash"


async def delete_video(connection: Connection, video_id: UUID) -> None:
    """To the trash. What waits is held; what runs may end, and its result is kept with the video."""
    await lock_video(connection, video_id)
    if await queries.set_deleted.value(connection, id=video_id, deleted=True) is None:
        raise InTrashError(fix="it can be restored, or erased for good")
    await hold_owner(connection, owner_of(video_id))
    await note_findable(connection, video_id)
    await queries.tell.run(connection, id=video_id)


async def restore_video(connection: Connection, video_id: UUID) -> None:
    """Back from the trash; what was held goes on."""
    await lock_video(connection, video_id)
    if await queries.set_deleted.value(connection, id=video_id, deleted=False) is None:
        raise NotInTrashError
    await release_owner(connection, owner_of(video_id))
    await note_findable(connection, video_id)
    await queries.tell.run(connection, id=video_id)


async def erase_video(connection: Connection, place: Place, video_id: UUID) -> None:
    """Out of the trash, for good: rows and jobs with the caller's transaction, files after it."""
    await lock_video(connection, video_id)
    if await queries.erase_video.value(connection, id=video_id) is None:
        raise NotInTrashError(fix="delete it first: what is in the trash can be erased")
    dead = [row["id"] for row in await queries.dead_jobs.rows(connection, video_id=str(video_id))]
    if dead:
        await purge_dead(connection, dead)
    await forget_owner(connection, owner_of(video_id))
    await note_findable(connection, video_id)
    await queries.tell_gone.run(connection, id=str(video_id))
    await storage_at(place).drop(connection, video_folder(video_id))


async def empty_trash(database: Database, place: Place, keep_days: int = 0) -> int:
    """Erase what has been in the trash for so long, one by one. How many."""
    erased = 0
    while True:
        async with database.connection() as connection:
            rows = await queries.old_trash.rows(connection, keep_days=keep_days, batch=BATCH)
        for row in rows:
            # Somebody else may have restored or erased it meanwhile.
            with suppress(NotInTrashError, UnknownVideoError):
                async with database.transaction() as connection:
                    await erase_video(connection, place, row["id"])
                erased += 1
        if len(rows) < BATCH:
            return erased
