"""The janitor of videos: the trash is emptied in time, and folders that a crash left behind are deleted.

A folder is looked at first, its rows afterwards and in one statement: a stream that is put in place meanwhile has its
job in that look, or is the output already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from mediamill.db.connection import LOST, Connection, Database
from mediamill.settings import Settings
from mediamill.storage.batches import in_batches
from mediamill.storage.choose import Place, storage_at, storage_of
from mediamill.storage.contract import Storage
from mediamill.storage.deletions import deletions_wait
from mediamill.videos.model import FOLDER, output_folder, video_folder
from mediamill.videos.store import queries
from mediamill.videos.trash import empty_trash

log = logging.getLogger(__name__)

BATCH = 500
WATCHED_SECONDS = 3600.0  # a stream whose place another took stays so long for those who watch it
ORPHAN_SECONDS = 86_400.0  # a folder gets its video in a moment; one that has none after so long lost it


async def sweep_videos(database: Database, settings: Settings) -> None:
    """All of it, once."""
    if settings.video_trash_keep_days:
        await empty_trash(database, storage_of(settings), settings.video_trash_keep_days)
    await sweep_folders(database, storage_of(settings))


async def sweep_videos_forever(database: Database, settings: Settings) -> None:
    """The background task of the server."""
    while True:
        try:
            await sweep_videos(database, settings)
        except LOST as error:
            log.debug("videos: the database is away: %s", error)
        except Exception:
            log.exception("the sweep of videos failed")
        await asyncio.sleep(settings.janitor_seconds)


async def sweep_folders(database: Database, place: Place, older_than_seconds: float = ORPHAN_SECONDS) -> int:
    """Delete folders of videos that are not there any more, and streams that no video shows. How many."""
    storage, removed = storage_at(place), 0
    async with database.connection() as connection:
        videos = [
            video_id for name in await storage.folders(connection, FOLDER) if (video_id := _id_of(name))
        ]
    for ids in in_batches(videos, BATCH):
        async with database.connection() as connection:
            outputs = {one: await storage.folders(connection, video_folder(one)) for one in ids}
            gone = await _orphans(connection, storage, ids, older_than_seconds)
            unshown = await _unshown(connection, outputs)
        if deletions_wait(storage.folder):
            break
        async with database.transaction() as connection:
            for video_id, output in unshown:
                await queries.drop_files.run(connection, video_id=video_id, output=output, qualities=None)
        gone += [output_folder(*one) for one in unshown]
        await storage.remove(database, gone)
        for folder in gone:
            log.info("%s, which nothing names any more, is deleted", folder)
        removed += len(gone)
    return removed


async def _orphans(
    connection: Connection, storage: Storage, ids: Sequence[UUID], older_than_seconds: float
) -> list[str]:
    """Folders without a video, and without an upload that is about to become one."""
    known = {row["id"] for row in await queries.known_videos.rows(connection, ids=list(ids))}
    unknown = [video_folder(video_id) for video_id in ids if video_id not in known]
    # The newest change in it: an upload that has just arrived makes the folder young again.
    return [
        folder for folder in unknown if await storage.age_seconds(connection, folder) > older_than_seconds
    ]


async def _unshown(connection: Connection, outputs: Mapping[UUID, Sequence[str]]) -> list[tuple[UUID, int]]:
    """Streams of videos that are there, but show another, and whose job has ended for good."""
    pairs = [
        (video_id, int(number))
        for video_id, folders in outputs.items()
        for folder in folders
        if _is_number(number := folder.rpartition("/")[2])
    ]
    rows = await queries.unshown_outputs.rows(
        connection,
        video_ids=[video_id for video_id, _ in pairs],
        outputs=[output for _, output in pairs],
        watched_seconds=WATCHED_SECONDS,
    )
    return [(row["id"], row["output"]) for row in rows]


def _id_of(folder: str) -> UUID | None:
    """What has another name is not ours."""
    name = folder.rpartition("/")[2]
    with suppress(ValueError):
        video_id = UUID(name)
        return video_id if str(video_id) == name else None
    return None


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and str(int(name)) == name and int(name) < 2**63
