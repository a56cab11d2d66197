"""Bytes on their way in: streamed to a part file, hashed and bounded, then put in the one place of their content."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from mediamill.db.connection import Connection
from mediamill.errors import InvalidError
from mediamill.intake.analyse import Content
from mediamill.intake.model import PARTS, blob_name
from mediamill.media.sniff import sniff
from mediamill.settings import Settings
from mediamill.staging.put import UploadTooLargeError
from mediamill.staging.received import FileTooLargeError, Received, receive
from mediamill.storage.choose import Place, storage_at, storage_of
from mediamill.storage.contract import Sent

READ_BYTES = 1 << 20


class UnreadableFileError(InvalidError):
    """The file cannot be read."""

    code = "unreadable_file"


class ChangedFileError(UnreadableFileError):
    """The file changed while it was read."""

    code = "file_changed"


@dataclass(frozen=True, slots=True)
class Arrived:
    """A whole file, on the disk, still under a name of its own."""

    sent: Sent
    content: Content

    async def put_in_place(self, connection: Connection, place: Place) -> None:
        """Whoever has the same content has put the same bytes there. The lock of the content is held."""
        await storage_at(place).give_name(connection, self.sent, blob_name(self.content.sha256))


@asynccontextmanager
async def receive_file(
    settings: Settings, chunks: AsyncIterable[bytes], announced_bytes: int | None = None
) -> AsyncIterator[Arrived]:
    """For the length of the block; what is not put in place by then is gone."""
    folder = settings.data_folder / PARTS
    await asyncio.to_thread(folder.mkdir, 0o700, parents=True, exist_ok=True)
    part, limit = folder / f"{uuid4().hex}.part", settings.upload_limit_bytes
    try:
        async with receive(part, chunks, limit_bytes=limit, announced_bytes=announced_bytes) as received:
            content = await asyncio.to_thread(_look, received)
            yield Arrived(await storage_of(settings).send(part), content)
    except FileTooLargeError as error:
        raise UploadTooLargeError(
            f"a file may have {limit} bytes", fix="MEDIAMILL_UPLOAD_LIMIT_BYTES sets the limit"
        ) from error


def _look(received: Received) -> Content:
    """On the disk, and what it is."""
    _sync(received.path)
    return Content(bytes.fromhex(received.sha256), received.bytes, sniff(received.path).mime_type)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def read_chunks(descriptor: int, expected: tuple[int, int] | None = None) -> AsyncIterator[bytes]:
    """The bytes of an open file. `expected`: its time and size, which it must have before and after."""
    before = _state(descriptor)
    if expected is not None and before != expected:
        raise ChangedFileError
    while chunk := await asyncio.to_thread(_read, descriptor):
        yield chunk
    if _state(descriptor) != before:
        raise ChangedFileError


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError as error:  # not to be taken for a database that is away
        raise UnreadableFileError(error.strerror or str(error)) from error


def open_regular(path: bytes | Path, *, dir_fd: int | None = None) -> int:
    """A descriptor of a plain file; never waits for a pipe or a device. In an open folder: by no link."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if dir_fd is not None else 0)
    try:
        descriptor = os.open(path, flags, dir_fd=dir_fd)
    except OSError as error:
        raise UnreadableFileError(error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableFileError("it is not a regular file")
    return descriptor


def _state(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_mtime_ns, found.st_size
