"""The part file of an upload: it grows at its end, by one writer at a time, until all of it has come.

How much has come is the size of the file. Whatever ends a writer leaves what it wrote, for the next to go on from; only
a chunk with a checksum counts as a whole or not at all, and a note beside the file says where such a chunk began.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import stat
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from mediamill.errors import ConflictError, InvalidError, NotFoundError, QuotaExceededError, UnavailableError
from mediamill.staging.put import NO_SPACE, WRITE_BYTES
from mediamill.staging.quota import StorageFullError

FOLDER = "uploads"
UNCHECKED = ".unchecked"
MOST_GATHERED = 1000  # pieces that are written at once: the system takes 1024
SYNC_BYTES = 32 << 20  # the disk begins to write while more arrives, so that the end is not waited for long
SPARE_BYTES = 256 << 20  # left free on the disk: a database that finds it full stops


class PartMissingError(NotFoundError):
    """There is no such upload."""

    code = "unknown_upload"


class OddPartError(InvalidError):
    """What lies in the place of an upload is not a file of ours."""

    code = "odd_upload"


class UploadLockedError(ConflictError):
    """Somebody else is sending this upload just now."""

    code = "upload_locked"


class OffsetMismatchError(ConflictError):
    """The chunk does not begin where the upload ends."""

    code = "offset_mismatch"


class BeyondLengthError(QuotaExceededError):
    """More came than was announced."""

    code = "beyond_length"


class ChecksumMismatchError(InvalidError):
    """The chunk is not what its checksum says; it is not kept."""

    code = "checksum_mismatch"


class DiskFailedError(UnavailableError):
    """The disk does not take the file."""

    code = "disk_failed"


def part_path(data_folder: Path, upload_id: UUID) -> Path:
    """Where the bytes of an upload gather."""
    return data_folder / FOLDER / str(upload_id)


class PartFacts(NamedTuple):
    """How much has come, and when the last of it did."""

    size: int
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Part:
    """A part file that is ours alone while it is held."""

    path: Path
    descriptor: int

    @property
    def size(self) -> int:
        """How much has come."""
        return os.fstat(self.descriptor).st_size

    def cut(self, size: int) -> None:
        """What is behind it never came."""
        os.ftruncate(self.descriptor, size)
        _note(self.path).unlink(missing_ok=True)

    async def delete(self) -> None:
        """It is not wanted any more."""
        await _to_its_end(asyncio.to_thread(self._delete))

    async def move(self, target: Path) -> None:
        """It is whole: on the disk first, then under its name, then the names on the disk."""
        await _to_its_end(asyncio.to_thread(self._move, target))

    def _delete(self) -> None:
        self.path.unlink(missing_ok=True)
        _note(self.path).unlink(missing_ok=True)

    def _move(self, target: Path) -> None:
        with _told_as_ours():
            os.fsync(self.descriptor)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.replace(target)
            for folder in (target.parent, target.parent.parent, self.path.parent):
                _sync_folder(folder)


async def create_part(data_folder: Path, upload_id: UUID) -> None:
    """Empty. It must not be there."""
    await _to_its_end(asyncio.to_thread(_create, part_path(data_folder, upload_id)))


def _create(path: Path) -> None:
    with _told_as_ours():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        _sync_folder(path.parent)


def part_facts(data_folder: Path, upload_id: UUID) -> PartFacts | None:
    """How much has come; None: there is no such file. Asked while somebody writes, it may be more already."""
    path = part_path(data_folder, upload_id)
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return None
    _check_ours(facts)
    size = min(facts.st_size, _checked(path, facts.st_size))
    return PartFacts(size, datetime.fromtimestamp(facts.st_mtime, UTC))


@contextmanager
def hold_part(data_folder: Path, upload_id: UUID) -> Iterator[Part]:
    """Alone, whoever else wants it, in whichever process: UploadLockedError, PartMissingError."""
    path = part_path(data_folder, upload_id)
    descriptor = _open(path)
    try:
        _lock(path, descriptor)
        part = Part(path, descriptor)
        if _note(path).exists():  # its writer was killed
            part.cut(_checked(path, part.size))
        yield part
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also if a fork has just copied the descriptor
        os.close(descriptor)


async def append(
    part: Part, chunks: AsyncIterable[bytes], *, offset: int, length: int, sha256: bytes | None = None
) -> int:
    """What comes, behind what there is; the new size. Whatever ends it early, what arrived is kept.

    OffsetMismatchError, BeyondLengthError, ChecksumMismatchError, StorageFullError, and whatever `chunks` raises.
    """
    if part.size != offset:
        raise OffsetMismatchError(
            f"the upload has {part.size} bytes, and the chunk begins at {offset}",
            fix="ask by HEAD where it ends, and go on from there",
        )
    check_room(part.path.parent, length - offset)
    appender = _Appender(part, length - offset, sha256)
    try:
        async for chunk in chunks:
            await appender.add(chunk)
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
    """Gathers small chunks; while one large piece is written in a thread, and the disk catches up, more gathers."""

    def __init__(self, part: Part, most_bytes: int, sha256: bytes | None) -> None:
        self._part, self._left, self._expected = part, most_bytes, sha256
        self._begin = part.size
        self._hash = hashlib.sha256()
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._unsynced = 0
        self._writing: asyncio.Future[None] | None = None
        self._syncing: asyncio.Future[None] | None = None
        if sha256 is not None:
            with _told_as_ours():
                _note(part.path).write_text(str(self._begin))

    async def add(self, chunk: bytes) -> None:
        """May wait for the disk."""
        self._left -= len(chunk)
        if self._left < 0:
            raise BeyondLengthError(fix="begin a new upload, with the length that it has")
        self._gathered.append(chunk)
        self._gathered_bytes += len(chunk)
        if self._gathered_bytes >= WRITE_BYTES or len(self._gathered) >= MOST_GATHERED:
            await self._flush()

    async def finish(self) -> None:
        """All of it is on the disk, and is what it should be."""
        await self._flush()
        await self._settle()
        if self._expected is not None and self._hash.digest() != self._expected:
            raise ChecksumMismatchError(fix="send the chunk again")
        await _to_its_end(asyncio.to_thread(self._sync))
        _note(self._part.path).unlink(missing_ok=True)

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
            await _to_its_end(asyncio.to_thread(self._sync), quietly=True)

    async def _flush(self) -> None:
        if self._writing is not None:
            await _to_its_end(self._writing)
        pieces, self._gathered = self._gathered, []
        if pieces:
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, pieces))
            self._unsynced += self._gathered_bytes
            self._gathered_bytes = 0
        if self._unsynced >= SYNC_BYTES and (self._syncing is None or self._syncing.done()):
            check_room(self._part.path.parent, 0)
            await self._begin_sync()

    async def _begin_sync(self) -> None:
        if self._syncing is not None:
            await _to_its_end(self._syncing)  # it has ended; if badly, that is told now
        self._syncing = asyncio.ensure_future(asyncio.to_thread(self._sync))
        self._unsynced = 0

    async def _settle(self, *, quietly: bool = False) -> None:
        """Nothing is under way any more."""
        try:
            if self._writing is not None:
                await _to_its_end(self._writing, quietly=quietly)
        finally:
            if self._syncing is not None:
                await _to_its_end(self._syncing, quietly=quietly)

    def _write(self, pieces: list[bytes]) -> None:
        """In a thread, as they came, without putting them together first."""
        with _told_as_ours():
            for piece in pieces if self._expected is not None else ():
                self._hash.update(piece)
            views = deque(memoryview(piece) for piece in pieces if piece)
            while views:
                written = os.writev(self._part.descriptor, views)
                while views and written >= len(views[0]):
                    written -= len(views.popleft())
                if written:
                    views[0] = views[0][written:]

    def _sync(self) -> None:
        with _told_as_ours():
            os.fsync(self._part.descriptor)


async def _to_its_end(work: Awaitable[None], *, quietly: bool = False) -> None:
    """Whoever is cancelled meanwhile waits: a file must not be closed under a thread that writes to it."""
    working = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    failure = working.exception()
    if cancelled is not None:
        raise cancelled
    if failure is not None and not quietly:
        raise failure


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise PartMissingError from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise OddPartError from error
        raise


def _lock(path: Path, descriptor: int) -> None:
    """Ours alone, and still the one under its name: whoever held it may have moved or deleted it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UploadLockedError(fix="wait until it has ended, then ask by HEAD where to go on") from None
    facts = os.fstat(descriptor)
    _check_ours(facts)
    try:
        named = path.lstat()
    except FileNotFoundError:
        raise PartMissingError from None
    if (named.st_dev, named.st_ino) != (facts.st_dev, facts.st_ino):
        raise PartMissingError


def _check_ours(facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        raise OddPartError


def _note(path: Path) -> Path:
    return path.with_name(path.name + UNCHECKED)


def _checked(path: Path, size: int) -> int:
    """Up to where the file is known to be right."""
    try:
        return int(_note(path).read_text())
    except (FileNotFoundError, ValueError):  # there is none, or nothing was written after it
        return size


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _told_as_ours() -> Iterator[None]:
    """What the disk refuses, in words that a sender understands."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StorageFullError(
                "the disk is full", fix="free some space, then go on from where it is"
            ) from error
        raise DiskFailedError(f"the disk does not take the file: {error.strerror or error}") from error
