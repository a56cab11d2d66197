"""The part file of an upload: it grows at its end, by one writer at a time, until all of it has come.

How much has come is the size of the file. Whatever ends a writer leaves what it wrote, for the next to go on from; only
a chunk with a checksum counts as a whole or not at all, and a note beside the file says where such a chunk began.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from mediamill.clock import to_its_end
from mediamill.errors import ConflictError, InvalidError, NotFoundError, QuotaExceededError, UnavailableError
from mediamill.staging.put import NO_SPACE
from mediamill.staging.quota import StorageFullError

FOLDER = "uploads"
UNCHECKED = ".unchecked"


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
        note_of(self.path).unlink(missing_ok=True)

    async def delete(self) -> None:
        """It is not wanted any more."""
        await to_its_end(asyncio.to_thread(self._delete))

    async def move(self, target: Path) -> None:
        """It is whole: on the disk first, then under its name, then the names on the disk."""
        await to_its_end(asyncio.to_thread(self._move, target))

    def _delete(self) -> None:
        self.path.unlink(missing_ok=True)
        note_of(self.path).unlink(missing_ok=True)

    def _move(self, target: Path) -> None:
        with told_as_ours():
            os.fsync(self.descriptor)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.replace(target)
            for folder in (target.parent, target.parent.parent, self.path.parent):
                _sync_folder(folder)


async def create_part(data_folder: Path, upload_id: UUID) -> None:
    """Empty. It must not be there."""
    await to_its_end(asyncio.to_thread(_create, part_path(data_folder, upload_id)))


def _create(path: Path) -> None:
    with told_as_ours():
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
        if note_of(path).exists():  # its writer was killed
            part.cut(_checked(path, part.size))
        yield part
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also if a fork has just copied the descriptor
        os.close(descriptor)


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


def note_of(path: Path) -> Path:
    return path.with_name(path.name + UNCHECKED)


def _checked(path: Path, size: int) -> int:
    """Up to where the file is known to be right."""
    try:
        return int(note_of(path).read_text())
    except (FileNotFoundError, ValueError):  # there is none, or nothing was written after it
        return size


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def told_as_ours() -> Iterator[None]:
    """What the disk refuses, in words that a sender understands."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StorageFullError(
                "the disk is full", fix="free some space, then go on from where it is"
            ) from error
        raise DiskFailedError(f"the disk does not take the file: {error.strerror or error}") from error
