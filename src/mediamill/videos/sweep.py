"""The janitor of videos: the trash is emptied in time, and folders that a crash left behind are deleted.

A folder is looked at first, its rows afterwards and in one statement: a stream that is put in place meanwhile has its
job in that look, or is the output already.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from uuid import UUID

from mediamill.db.connection import LOST, Database
from mediamill.settings import Settings
from mediamill.videos.model import FOLDER, output_folder, video_folder
from mediamill.videos.store import queries
from mediamill.videos.trash import empty_trash

log = logging.getLogger(__name__)

BATCH = 500
ORPHAN_SECONDS = 86_400.0  # a folder gets its video in a moment; one that has none after so long lost it


async def sweep_videos(database: Database, settings: Settings) -> None:
    """All of it, once."""
    if settings.video_trash_keep_days:
        await empty_trash(database, settings.data_folder, settings.video_trash_keep_days)
    await sweep_folders(database, settings.data_folder)


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


async def sweep_folders(
    database: Database, data_folder: Path, older_than_seconds: float = ORPHAN_SECONDS
) -> int:
    """Delete folders of videos that are not there any more, and streams that no video shows. How many."""
    folders = _folders(data_folder / FOLDER)
    removed = 0
    while batch := await asyncio.to_thread(lambda: list(islice(folders, BATCH))):
        gone = await _orphans(database, data_folder, [video_id for video_id, _ in batch], older_than_seconds)
        gone += await _unshown(database, data_folder, batch)
        for folder in gone:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            log.info("%s, which nothing names any more, is deleted", folder.relative_to(data_folder))
        removed += len(gone)
    return removed


async def _orphans(
    database: Database, data_folder: Path, ids: list[UUID], older_than_seconds: float
) -> list[Path]:
    """Folders without a video, and without an upload that is about to become one."""
    async with database.connection() as connection:
        known = {row["id"] for row in await queries.known_videos.rows(connection, ids=ids)}
    unknown = [video_folder(data_folder, video_id) for video_id in ids if video_id not in known]
    return [folder for folder in unknown if _changed_at(folder) < time.time() - older_than_seconds]


async def _unshown(database: Database, data_folder: Path, batch: list[tuple[UUID, list[int]]]) -> list[Path]:
    """Streams of videos that are there, but show another, and whose job has ended for good."""
    pairs = [(video_id, output) for video_id, outputs in batch for output in outputs]
    async with database.connection() as connection:
        rows = await queries.unshown_outputs.rows(
            connection,
            video_ids=[video_id for video_id, _ in pairs],
            outputs=[output for _, output in pairs],
        )
    return [output_folder(data_folder, row["id"], row["output"]) for row in rows]


def _folders(root: Path) -> Iterator[tuple[UUID, list[int]]]:
    """Of each video the numbers of its streams. What has another name, or is a link, is not ours."""
    for name in _names(root):
        with suppress(ValueError):
            video_id = UUID(name)
            if str(video_id) == name:
                yield video_id, [int(each) for each in _names(root / name) if _is_number(each)]


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and str(int(name)) == name and int(name) < 2**63


def _changed_at(folder: Path) -> float:
    """The newest change in it: an upload that has just arrived makes the folder young again."""
    try:
        return folder.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return time.time()
