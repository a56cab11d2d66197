"""Bytes from somewhere into a staged file: streamed, bounded, and there as a whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from mediamill.errors import InvalidError, QuotaExceededError
from mediamill.staging import staging_folder
from mediamill.staging.quota import PART, Reservation, StagingRoom, StorageFullError

WRITE_BYTES = 1 << 20
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class UploadTooLargeError(QuotaExceededError):
    """The file is larger than an upload may be."""

    code = "upload_too_large"


class EmptyUploadError(InvalidError):
    """The file is empty."""

    code = "empty_upload"


async def put_chunks(
    data_folder: Path,
    guid: str,
    chunks: AsyncIterable[bytes],
    room: StagingRoom,
    *,
    quota_bytes: int,
    limit_bytes: int,
    announced_bytes: int | None = None,
) -> int:
    """Stage a file under this guid; its size. Whatever ends it early leaves nothing behind."""
    if announced_bytes is not None and announced_bytes > limit_bytes:
        raise _too_large(limit_bytes)
    target = staging_folder(data_folder) / guid
    async with room.reserve(guid, announced_bytes or 0, quota_bytes) as reservation, _part_of(target) as file:
        written = await _write_all(file, chunks, reservation, limit_bytes)
        if not written:
            raise EmptyUploadError(fix="send the bytes of the file as the body")
        await _to_the_end(_keep, file, target)
        reservation.kept_bytes = written
    return written


def drop_staged(data_folder: Path, guid: str) -> None:
    """It is not needed after all."""
    (staging_folder(data_folder) / guid).unlink(missing_ok=True)


@asynccontextmanager
async def _part_of(target: Path) -> AsyncIterator[BinaryIO]:
    file = await asyncio.to_thread(_create, _part(target))
    try:
        yield file
    except BaseException as error:
        _delete(target)
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise StorageFullError("the disk is full", fix="free some space") from error
        raise
    finally:
        with contextlib.suppress(OSError):  # a full disk again, of a file that is thrown away
            file.close()
        _delete(_part(target))  # gone already if the file was kept


async def _write_all(
    file: BinaryIO, chunks: AsyncIterable[bytes], reservation: Reservation, limit_bytes: int
) -> int:
    written = 0
    async for piece in _gather(chunks):
        written += len(piece)
        if written > limit_bytes:
            raise _too_large(limit_bytes)
        await reservation.grow(written - reservation.bytes)
        await asyncio.to_thread(file.write, piece)
    return written


async def _gather(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Small chunks together, so that the disk is not bothered with each."""
    waiting = bytearray()
    async for chunk in chunks:
        waiting += chunk
        if len(waiting) >= WRITE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


async def _to_the_end(verb: Callable[[BinaryIO, Path], None], file: BinaryIO, target: Path) -> None:
    """In a thread; a caller that goes away meanwhile waits, so that what follows finds a settled disk."""
    working = asyncio.ensure_future(asyncio.to_thread(verb, file, target))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)


def _part(target: Path) -> Path:
    return target.with_name(target.name + PART)


def _create(part: Path) -> BinaryIO:
    part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _keep(file: BinaryIO, target: Path) -> None:
    """On the disk first, then under its name, then the name on the disk."""
    file.flush()
    os.fsync(file.fileno())
    _part(target).replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _too_large(limit_bytes: int) -> UploadTooLargeError:
    return UploadTooLargeError(
        f"a file may have {limit_bytes} bytes", fix="MEDIAMILL_UPLOAD_LIMIT_BYTES sets the limit"
    )
