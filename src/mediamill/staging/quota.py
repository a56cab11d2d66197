"""Room for media that wait: a counter with reservations, corrected now and then by a look at the folders.

Files leave the folders without our knowledge (a worker is done with them), and a bridge writes there too. So the
counter is only trusted for a while, and not when it says no. A size that cannot be found out leaves no room at all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from mediamill.db.connection import LOST
from mediamill.errors import QuotaExceededError
from mediamill.staging import failed_folder, staging_folder

log = logging.getLogger(__name__)

GIGABYTE = 1024**3
MEASURE_SECONDS = 60.0
MEASURE_AGAIN_SECONDS = 1.0
PART = ".part"


class StorageFullError(QuotaExceededError):
    """There is no room for more media now."""

    code = "storage_full"


class StorageUnknownError(StorageFullError):
    """How much room is left for media cannot be found out."""

    code = "storage_unknown"


def limit_bytes(quota_gb: float) -> int:
    """Above so many bytes nothing more is written."""
    return int(max(quota_gb - 2, 1) * GIGABYTE)


class StagingRoom:
    """One per process that writes staged files."""

    def __init__(self, data_folder: Path, elsewhere: Callable[[], Awaitable[int]] | None = None) -> None:
        """`elsewhere`: how much lies in a bucket."""
        self._elsewhere = elsewhere
        self._folders = (staging_folder(data_folder), failed_folder(data_folder))
        self._measured: int | None = None
        self._measured_at = float("-inf")
        self._written = (
            0  # since the last look; a file that ends during a look may count twice until the next
        )
        self._reserved = 0
        self._open: set[str] = (
            set()
        )  # names of files being written: their reservations count, not their sizes
        self._measuring = asyncio.Lock()

    @property
    def used_bytes(self) -> int | None:
        """In use or promised; None if that is not known."""
        return None if self._measured is None else self._measured + self._written + self._reserved

    @asynccontextmanager
    async def reserve(self, name: str, bytes_: int, limit: int) -> AsyncIterator[Reservation]:
        """Room for one file of this name while it is written. StorageFullError: there is none."""
        reservation = Reservation(self, limit)
        await reservation.grow(bytes_)
        self._open.add(name + PART)
        try:
            yield reservation
        finally:
            self._open.discard(name + PART)
            self._reserved -= reservation.bytes
            self._written += reservation.kept_bytes

    async def take(self, bytes_: int, limit: int) -> None:
        """For reservations: so much more, or StorageFullError."""
        if self._measured is None or self._is_older_than(MEASURE_SECONDS):
            await self.measure()
        if not self._fits(bytes_, limit) and self._is_older_than(MEASURE_AGAIN_SECONDS):
            await self.measure()
        if self.used_bytes is None:
            raise StorageUnknownError(fix="the server's log says why; look at its data folder")
        if not self._fits(bytes_, limit):
            raise StorageFullError(
                f"media that wait take up {self.used_bytes} bytes, and no more than {limit} may be",
                fix="wait until some are processed, or raise it: mediamill config set media_storage_quota_gb …",
            )
        self._reserved += bytes_

    async def measure(self) -> None:
        """Look at the folders; those who ask at the same time share one look."""
        asked_at = time.monotonic()
        async with self._measuring:
            if self._measured is not None and self._measured_at > asked_at:
                return
            written_before, begun_at = self._written, time.monotonic()
            try:
                measured = await asyncio.to_thread(_size_of, self._folders, frozenset(self._open))
                self._measured = measured + (await self._elsewhere() if self._elsewhere else 0)
                self._written -= written_before
            except (OSError, *LOST) as error:
                log.error("the size of the staged media cannot be found out: %s", error)
                self._measured = None
            self._measured_at = begun_at

    def _fits(self, bytes_: int, limit: int) -> bool:
        used = self.used_bytes
        return used is not None and used + bytes_ <= limit

    def _is_older_than(self, seconds: float) -> bool:
        return time.monotonic() - self._measured_at > seconds


class Reservation:
    """Room promised to one file."""

    def __init__(self, room: StagingRoom, limit: int) -> None:
        self._room, self._limit = room, limit
        self.bytes = 0
        self.kept_bytes = 0  # what the file takes up once it is whole; until then it may vanish

    async def grow(self, bytes_: int) -> None:
        """More room, for a file that is longer than announced."""
        if bytes_ > 0:
            await self._room.take(bytes_, self._limit)
            self.bytes += bytes_


def _size_of(folders: Iterable[Path], skip: Collection[str]) -> int:
    """Plain files only; a folder that is not there yet is empty, a file that has just gone takes up nothing."""
    total = 0
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                total += sum(_size(entry) for entry in entries if entry.name not in skip)
        except FileNotFoundError:
            continue
    return total


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    except FileNotFoundError:
        return 0
