"""Files that remote workers send: streamed beside their place, hashed on the way, bounded, and moved there whole."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mediamill.clock import to_its_end
from mediamill.db.connection import Connection, Database
from mediamill.engine.model import ClaimedJob
from mediamill.errors import InvalidError, QuotaExceededError
from mediamill.staging.derivatives import home_of
from mediamill.staging.put import NO_SPACE
from mediamill.staging.quota import StorageFullError
from mediamill.storage.choose import Place, storage_at

FREE_BYTES = 256 * 1024**2  # so much of the disk stays free for the database and everybody else
LOOK_BYTES = 16 * 1024**2  # the disk is looked at each time so much has come
MOST_DERIVATIVES = 1_000
_PART_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z._ -]{0,99}")
MOST_PARTS = 8


class FileTooLargeError(QuotaExceededError):
    """The file is larger than a worker may send."""

    code = "file_too_large"


class HashMismatchError(InvalidError):
    """The bytes that came are not those that were announced."""

    code = "hash_mismatch"


class BadDerivativePathError(InvalidError):
    """The path of a derivative has plain names, and stays in its folder."""

    code = "bad_file_name"


class BadResultFilesError(InvalidError):
    """The result names files that were not sent with it."""

    code = "bad_result_files"


@dataclass(frozen=True, slots=True)
class Received:
    """A whole file, still under a name of its own."""

    path: Path
    bytes: int
    sha256: str


@asynccontextmanager
async def receive(
    part: Path, chunks: AsyncIterable[bytes], *, limit_bytes: int, announced_bytes: int | None = None
) -> AsyncIterator[Received]:
    """The file at `part`, for as long as the block: whoever wants it moves it away. An early end leaves nothing."""
    if announced_bytes is not None:
        _check_size(part, announced_bytes, limit_bytes)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        try:
            size, digest = await _write_all(part, descriptor, chunks, limit_bytes)
        finally:
            os.close(descriptor)
        yield Received(part, size, digest)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StorageFullError("the disk is full", fix="free some space") from error
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)  # noqa: PTH108 - also while this is being cancelled


async def _write_all(
    part: Path, descriptor: int, chunks: AsyncIterable[bytes], limit_bytes: int
) -> tuple[int, str]:
    size, looked_at, digest = 0, 0, hashlib.sha256()
    async for chunk in chunks:
        size += len(chunk)
        if size > limit_bytes or size - looked_at > LOOK_BYTES:
            _check_size(part, size, limit_bytes)
            looked_at = size
        await to_its_end(asyncio.to_thread(_write, descriptor, chunk, digest))
    return size, digest.hexdigest()


def _write(descriptor: int, chunk: bytes, digest: Any) -> None:
    digest.update(chunk)
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _check_size(part: Path, size: int, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise FileTooLargeError(
            f"a file of a worker may have {limit_bytes} bytes",
            fix="MEDIAMILL_WORKER_FILE_LIMIT_BYTES sets the limit",
        )
    there = part.stat().st_size if part.exists() else 0
    if shutil.disk_usage(part.parent).free + there - size < FREE_BYTES:
        raise StorageFullError("the disk is nearly full", fix="free some space")


def check_hash(received: Received, announced: str | None) -> None:
    """Only what the sender meant to send is taken."""
    if announced is not None and announced.lower() != received.sha256:
        raise HashMismatchError(
            f"announced {announced[:64]}, received {received.sha256} ({received.bytes} bytes)",
            fix="send it again",
        )


def derivative_name(job: ClaimedJob, path: str) -> str:
    """The name of a derivative of this claim, as a result has it."""
    parts = path.split("/")
    if len(parts) > MOST_PARTS or not all(_PART_NAME.fullmatch(part) for part in parts):
        raise BadDerivativePathError(f"{path[:200]!r} cannot be the path of a derivative")
    return str(home_of(job) / PurePosixPath(*parts))


async def put_derivative(
    database: Database, place: Place, job: ClaimedJob, received: Received, name: str
) -> None:
    """Whole and safe, under its name. Nothing that is there already is a link: only we write there."""
    storage = storage_at(place)
    async with database.connection() as connection:
        if await storage.count_in(connection, str(home_of(job))) >= MOST_DERIVATIVES:
            raise FileTooLargeError(f"a job may have {MOST_DERIVATIVES} derivatives")
    try:
        await storage.put_all(database, {name: received.path})
    except (FileExistsError, NotADirectoryError, IsADirectoryError, shutil.Error) as error:
        raise BadDerivativePathError(
            f"{name.rpartition('/')[2]!r} is a folder and a file",
            fix="give each derivative a name of its own",
        ) from error


async def check_named(connection: Connection, place: Place, job: ClaimedJob, result: Any) -> None:
    """A result from afar names only files that came with this very claim."""
    files = result.get("files") if isinstance(result, dict) else None
    named = {
        name: facts
        for name, facts in (files.items() if isinstance(files, dict) else ())
        if not isinstance(facts, dict) or facts.get("path") is not None
    }
    sizes: dict[str, dict[str, int]] = {}
    for name, facts in named.items():
        path = facts.get("path") if isinstance(facts, dict) else None
        if not isinstance(path, str) or not _is_own(job, path):
            raise BadResultFilesError(f"{str(name)[:100]!r} was not sent with this result")
        folder, _, last = path.rpartition("/")
        if folder not in sizes:
            sizes[folder] = await storage_at(place).sizes(connection, folder)
        if sizes[folder].get(last) != facts.get("bytes"):
            raise BadResultFilesError(f"{str(name)[:100]!r} was not sent with this result")


def _is_own(job: ClaimedJob, path: str) -> bool:
    inside = path.removeprefix(f"{home_of(job)}/")
    with contextlib.suppress(InvalidError):
        return inside != path and derivative_name(job, inside) == path
    return False
