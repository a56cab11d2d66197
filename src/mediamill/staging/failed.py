"""Files of failed jobs, put aside for a while so that they can be tried again. Strangers sent them: they may take up so
much room and no more, and the oldest go first."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from mediamill.db.connection import Database
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.give_up import delete_unused
from mediamill.storage.choose import Place, storage_at

MOST_BYTES = 2 * 1024**3


def put_aside(data_folder: Path, guid: str) -> None:
    """From the staging folder."""
    staged, aside = staging_folder(data_folder) / guid, failed_folder(data_folder) / guid
    aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        staged.replace(aside)
    with contextlib.suppress(FileNotFoundError):
        os.utime(aside)  # it is kept for a while from now on


async def make_room(database: Database, place: Place, most_bytes: int = MOST_BYTES) -> None:
    """Delete the oldest until the rest fits; what is tried again just now stays."""
    storage = storage_at(place)
    oldest = await asyncio.to_thread(_beyond_room, failed_folder(storage.folder), most_bytes)
    if oldest:
        await delete_unused(database, storage, oldest)


def _beyond_room(folder: Path, most_bytes: int) -> list[Path]:
    """The oldest, without which the rest fits."""
    with os.scandir(folder) as entries:
        found = [(entry.stat(follow_symlinks=False), Path(entry.path)) for entry in entries]
    total, beyond = sum(stat.st_size for stat, _ in found), []
    for stat, path in sorted(found, key=lambda each: each[0].st_mtime_ns):
        if total <= most_bytes:
            break
        beyond.append(path)
        total -= stat.st_size
    return beyond
