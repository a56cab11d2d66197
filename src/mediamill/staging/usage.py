"""What lies in the data folder, and in the bucket if there is one: nobody waits long, however many files there are."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mediamill.staging import FAILED
from mediamill.staging import FOLDER as STAGED
from mediamill.storage.count import BucketCount, BucketCounter

COUNT_SECONDS = 2.0
KEEP_SECONDS = 60.0
REST = "rest"
WAITING = (STAGED, FAILED)
# The folders that there can be, with what lies in each; whatever else is there is the rest.
FOLDERS = {
    STAGED: "Media that wait to be processed",
    FAILED: "Files of failed media, kept for another try",
    "uploads": "Uploads under way",
    "videos": "Videos: sources, streams, posters",
    "libraries": "Previews, clips and scenes of libraries",
    "intake": "Files of projects, and their pages",
    "derivatives": "Files that processors made for jobs",
    "kept": "Finished parts of jobs that still run",
    "cache": "Local copies of files in the bucket",
    "scratch": "Work in progress",
    "logs": "Flight logs",
    "postgres": "The embedded database",
    "agents": "Threads of the agent",
    "whatsapp": "WhatsApp: sessions and spool",
    "tools": "Programs that were set up here",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of the data folder. `complete` is False if there was no time to count all of it."""

    name: str
    words: str
    bytes: int
    files: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """What was counted, and the disk under it."""

    folder: str
    places: tuple[Place, ...]
    total_bytes: int
    free_bytes: int
    counted_at: datetime
    bucket: BucketCount | None = None

    @property
    def waiting_bytes(self) -> int:
        """What counts against the quota, wherever it lies: media that wait, and those put aside for another try."""
        here = sum(place.bytes for place in self.places if place.name in WAITING)
        return here + sum(
            area.bytes for area in (self.bucket.areas if self.bucket else ()) if area.name in WAITING
        )

    def as_dict(self) -> dict[str, Any]:
        """For people and scripts."""
        return asdict(self)


class UsageDesk:
    """Counts for everybody who asks, once in a while."""

    def __init__(self, data_folder: Path, bucket: BucketCounter | None = None) -> None:
        self._folder, self._bucket = data_folder, bucket
        self._usage: Usage | None = None
        self._good_until = 0.0
        self._counting = asyncio.Lock()

    async def usage(self) -> Usage:
        """The folder as it was a minute ago at most; the bucket as it says itself."""
        bucket = await self._bucket.count() if self._bucket is not None else None
        async with self._counting:
            if self._usage is None or time.monotonic() > self._good_until:
                self._usage = await asyncio.to_thread(measure_usage, self._folder)
                self._good_until = time.monotonic() + KEEP_SECONDS
            return replace(self._usage, bucket=bucket)


def measure_usage(data_folder: Path, seconds: float = COUNT_SECONDS) -> Usage:
    """One folder after the other, until the time is over."""
    free, total = disk_room(data_folder)
    places = []
    until = time.monotonic() + seconds
    for name, words in FOLDERS.items():
        if (data_folder / name).is_dir():
            bytes_, files, complete = _count(data_folder / name, until)
            places.append(Place(name, words, bytes_, files, complete))
    places.sort(key=lambda place: -place.bytes)
    return Usage(str(data_folder), (*places, _rest(data_folder)), total, free, datetime.now(UTC))


def disk_room(data_folder: Path) -> tuple[int, int]:
    """Free and total bytes of the disk; it costs nothing to ask."""
    there = next(path for path in (data_folder, *data_folder.parents) if path.exists())
    disk = shutil.disk_usage(there)
    return disk.free, disk.total


def _rest(data_folder: Path) -> Place:
    """Plain files beside the folders."""
    found = [
        entry
        for entry in _entries(data_folder)
        if entry.name not in FOLDERS and entry.is_file(follow_symlinks=False)
    ]
    return Place(REST, "Everything else", sum(map(_size, found)), len(found), True)


def _count(folder: Path, until: float) -> tuple[int, int, bool]:
    """Bytes and files below a folder; links are not followed. What goes away meanwhile is not counted."""
    bytes_ = files = 0
    waiting = [folder]
    while waiting:
        if time.monotonic() > until:
            return bytes_, files, False
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                bytes_ += _size(entry)
                files += 1
    return bytes_, files, True


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
