"""Appending to a part file: what comes is written in threads, while more comes and the disk catches up."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import AsyncIterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from mediamill.clock import to_its_end
from mediamill.staging.put import WRITE_BYTES
from mediamill.staging.quota import StorageFullError
from mediamill.staging.resumable import (
    BeyondLengthError,
    ChecksumMismatchError,
    DiskFailedError,
    OffsetMismatchError,
    Part,
    note_of,
    told_as_ours,
)

MOST_GATHERED = 1000  # pieces that are written at once: the system takes 1024
POUR_BYTES = 1 << 19  # stays in the processor's cache between the socket and the file
SYNC_BYTES = 32 << 20  # the disk begins to write while more arrives, so that the end is not waited for long
SHA1_BYTES = 20
SPARE_BYTES = 256 << 20  # left free on the disk: a database that finds it full stops

pouring = ThreadPoolExecutor(4, "pour")  # of its own: whoever pours leaves the other threads to others


class Inflow(Protocol):
    """Bytes that a thread can take by itself, by turns: the event loop has nothing to do with each of them."""

    @property
    def left(self) -> int:
        """How many are still to be taken."""

    def read_into(self, buffer: memoryview) -> int:
        """How many there were. 0: no more in this turn."""


def new_hash(checksum: bytes | None) -> hashlib._Hash:
    """The one that this checksum was made by, as its length says: sha1 against broken lines only, or sha256."""
    made_by_sha1 = checksum is not None and len(checksum) == SHA1_BYTES
    return hashlib.sha1(usedforsecurity=False) if made_by_sha1 else hashlib.sha256()


async def append(
    part: Part,
    pieces: AsyncIterable[bytes | Inflow],
    *,
    offset: int,
    length: int,
    checksum: bytes | None = None,
) -> int:
    """What comes, behind what there is; the new size. Whatever ends it early, what arrived is kept.

    OffsetMismatchError, BeyondLengthError, ChecksumMismatchError, StorageFullError, and whatever `pieces` raises.
    """
    if part.size != offset:
        raise OffsetMismatchError(
            f"the upload has {part.size} bytes, and the chunk begins at {offset}",
            fix="ask by HEAD where it ends, and go on from there",
        )
    check_room(part.path.parent, length - offset)
    appender = _Appender(part, length - offset, checksum)
    try:
        async for piece in pieces:
            await appender.add(piece)
        await appender.finish()
    except BaseException as error:
        await appender.stop(error)
        raise
    return part.size


def check_room(folder: Path, wanted_bytes: int) -> None:
    """StorageFullError, before anything is sent in vain."""
    facts = os.statvfs(folder)
    free = facts.f_bavail * facts.f_frsize
    if wanted_bytes + SPARE_BYTES > free:
        raise StorageFullError(
            f"{wanted_bytes} bytes are to come, and {max(free - SPARE_BYTES, 0)} fit on the disk",
            fix="free some space, then go on from where it is",
        )


class _Appender:
    """Gathers small chunks; while one large piece is written in a thread, and the disk catches up, more gathers.

    An inflow is not gathered: a thread takes it and writes it.
    """

    def __init__(self, part: Part, most_bytes: int, checksum: bytes | None) -> None:
        self._part, self._left, self._expected = part, most_bytes, checksum
        self._begin = part.size
        self._hash = new_hash(checksum)
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._buffer: memoryview | None = None
        self._unsynced = 0
        self._writing: asyncio.Future[None] | None = None
        self._syncing: asyncio.Future[None] | None = None
        if checksum is not None:
            with told_as_ours():
                note_of(part.path).write_text(str(self._begin))

    async def add(self, piece: bytes | Inflow) -> None:
        """May wait for the disk. Of an inflow, one turn."""
        coming = len(piece) if isinstance(piece, bytes) else piece.left
        if coming > self._left:
            raise BeyondLengthError(fix="begin a new upload, with the length that it has")
        if isinstance(piece, bytes):
            await self._gather(piece)
        else:
            await self._pour(piece)

    async def _gather(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        self._gathered.append(chunk)
        self._gathered_bytes += len(chunk)
        if self._gathered_bytes >= WRITE_BYTES or len(self._gathered) >= MOST_GATHERED:
            await self._flush()

    async def _pour(self, inflow: Inflow) -> None:
        """In a thread from where it comes into the file, behind what has gathered."""
        await self._flush()
        await self._written()
        before = inflow.left
        self._writing = asyncio.get_running_loop().run_in_executor(pouring, self._pour_turn, inflow)
        await self._written()
        self._left -= before - inflow.left
        self._unsynced += before - inflow.left
        await self._sync_early()

    async def finish(self) -> None:
        """All of it is on the disk, and is what it should be."""
        await self._flush()
        await self._settle()
        if self._expected is not None and self._hash.digest() != self._expected:
            raise ChecksumMismatchError(fix="send the chunk again")
        await to_its_end(asyncio.to_thread(self._sync))
        note_of(self._part.path).unlink(missing_ok=True)

    async def stop(self, error: BaseException) -> None:
        """Keep what came, unless it cannot be known to be right. No thread is left at work on the file."""
        try:
            if self._expected is None and not isinstance(
                error, BeyondLengthError | StorageFullError | DiskFailedError
            ):
                await self._flush()
        finally:
            await self._settle(quietly=True)
        if self._expected is not None or isinstance(error, BeyondLengthError):
            self._part.cut(self._begin)
        else:
            await to_its_end(asyncio.to_thread(self._sync), quietly=True)

    async def _flush(self) -> None:
        await self._written()
        pieces, self._gathered = self._gathered, []
        if pieces:
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, pieces))
            self._unsynced += self._gathered_bytes
            self._gathered_bytes = 0
        await self._sync_early()

    async def _written(self) -> None:
        if self._writing is not None:
            await to_its_end(self._writing)

    async def _sync_early(self) -> None:
        if self._unsynced >= SYNC_BYTES and (self._syncing is None or self._syncing.done()):
            check_room(self._part.path.parent, 0)
            await self._begin_sync()

    async def _begin_sync(self) -> None:
        if self._syncing is not None:
            await to_its_end(self._syncing)  # it has ended; if badly, that is told now
        self._syncing = asyncio.ensure_future(asyncio.to_thread(self._sync))
        self._unsynced = 0

    async def _settle(self, *, quietly: bool = False) -> None:
        """Nothing is under way any more."""
        try:
            if self._writing is not None:
                await to_its_end(self._writing, quietly=quietly)
        finally:
            if self._syncing is not None:
                await to_its_end(self._syncing, quietly=quietly)

    def _write(self, pieces: list[bytes]) -> None:
        """In a thread, as they came, without putting them together first."""
        with told_as_ours():
            for piece in pieces if self._expected is not None else ():
                self._hash.update(piece)
            views = deque(memoryview(piece) for piece in pieces if piece)
            while views:
                written = os.writev(self._part.descriptor, views)
                while views and written >= len(views[0]):
                    written -= len(views.popleft())
                if written:
                    views[0] = views[0][written:]

    def _pour_turn(self, inflow: Inflow) -> None:
        self._buffer = self._buffer or memoryview(bytearray(POUR_BYTES))
        with told_as_ours():
            while got := inflow.read_into(self._buffer):
                view = self._buffer[:got]
                if self._expected is not None:
                    self._hash.update(view)
                while view:
                    view = view[os.write(self._part.descriptor, view) :]

    def _sync(self) -> None:
        with told_as_ours():
            os.fsync(self._part.descriptor)
