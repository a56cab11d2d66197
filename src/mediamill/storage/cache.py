"""Local copies of files in a bucket, for whoever needs a path. An object never changes, so a copy is never wrong.

A copy is fetched beside its place, by one process at a time, and goes on where another broke off; each piece is checked
by its hash, also those that were there: after a loss of power they may be anything. The longest unused go first when
there are too many.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mediamill.clock import to_its_end
from mediamill.db import file_lock
from mediamill.errors import RetryLaterError
from mediamill.storage.contract import Piece
from mediamill.storage.objects import Objects

FOLDER = "cache"
PART = ".part"
FOLDERS = "folders"
LOCK_SECONDS = 0.1
USED_SECONDS = 6 * 3600.0  # what was asked for within so long may still be opened, and stays
BLOCK_BYTES = 4 << 20


class DamagedObjectError(RetryLaterError):
    """An object in the bucket is not what was put there."""

    code = "damaged_object"


class Cache:
    """One for each data folder; several processes may share it."""

    def __init__(self, data_folder: Path, most_bytes: int) -> None:
        self.folder = data_folder / FOLDER
        self.most_bytes = most_bytes

    async def fetch(self, objects: Objects, pieces: Sequence[Piece]) -> Path:
        """The file that these pieces make up."""
        key, size = pieces[0].key.rpartition("/")[2], size_of(pieces)
        path = self.folder / f"{key}-{size}"
        if await asyncio.to_thread(_touch, path, size):
            return path
        await asyncio.to_thread(self.folder.mkdir, 0o700, parents=True, exist_ok=True)
        part = path.with_name(path.name + PART)
        while True:
            lock = file_lock.open_lock(part)
            try:
                if file_lock.try_exclusive(lock):
                    if await asyncio.to_thread(_touch, path, size):  # somebody else was quicker
                        part.unlink(missing_ok=True)
                    else:
                        await self._fetch(objects, pieces, lock)
                        await to_its_end(asyncio.to_thread(os.fsync, lock))
                        part.replace(path)
                    return path
            finally:
                file_lock.release(lock)
            await asyncio.sleep(LOCK_SECONDS)

    async def fetch_to(self, objects: Objects, pieces: Sequence[Piece], path: Path) -> None:
        """Into a file of the caller's own, from its beginning; checked as all of them are."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            await self._fetch(objects, pieces, descriptor)
        finally:
            os.close(descriptor)

    async def _fetch(self, objects: Objects, pieces: Sequence[Piece], descriptor: int) -> None:
        whole = await asyncio.to_thread(_count_whole, descriptor, pieces)
        os.ftruncate(descriptor, pieces[whole].first if whole < len(pieces) else size_of(pieces))
        for piece in pieces[whole:]:
            digest, at = hashlib.sha256(), 0
            while at < piece.length:
                data = await objects.read(piece.key, at, min(BLOCK_BYTES, piece.length - at))
                await to_its_end(asyncio.to_thread(_write, descriptor, piece.first + at, data))
                digest.update(data)
                at += len(data)
            if digest.digest() != piece.sha256:
                os.ftruncate(descriptor, piece.first)
                raise DamagedObjectError(f"the object {piece.key} is damaged", fix="look at the bucket")

    def gather(self, folder: str, files: Mapping[str, Path]) -> Path:
        """A folder with copies under these names, for whoever needs them side by side."""
        held = "\n".join([folder, *(f"{name}/{path.name}" for name, path in sorted(files.items()))])
        target = self.folder / FOLDERS / hashlib.sha256(held.encode()).hexdigest()[:32]  # never another's
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(target)
        for name, path in files.items():
            with suppress(FileExistsError):
                os.link(path, target / name, follow_symlinks=False)
        return target

    def evict(self) -> int:
        """Delete what was not used for longest, until the rest fits. How many."""
        self._evict_folders()
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        found.append((entry.stat(follow_symlinks=False), Path(entry.path)))
        except FileNotFoundError:
            return 0
        total, gone = sum(facts.st_size for facts, _ in found), 0
        for facts, path in sorted(found, key=lambda each: each[0].st_mtime_ns):
            if total <= self.most_bytes or facts.st_mtime > time.time() - USED_SECONDS:
                break
            path.unlink(missing_ok=True)
            total, gone = total - facts.st_size, gone + 1
        return gone

    def _evict_folders(self) -> None:
        with suppress(FileNotFoundError):
            for folder in (self.folder / FOLDERS).iterdir():
                if folder.stat().st_mtime < time.time() - USED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)


def _touch(path: Path, size: int) -> bool:
    try:
        os.utime(path)
        return path.stat(follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False


def _count_whole(descriptor: int, pieces: Sequence[Piece]) -> int:
    """How many pieces from the first on are there as they should be."""
    for number, piece in enumerate(pieces):
        if digest_of(descriptor, piece) != piece.sha256:
            return number
    return len(pieces)


def size_of(pieces: Sequence[Piece]) -> int:
    """How long the file is that they make up."""
    return pieces[-1].first + pieces[-1].length


def digest_of(descriptor: int, piece: Piece) -> bytes:
    """The hash of what lies in a piece's place in a file."""
    digest, at, end = hashlib.sha256(), piece.first, piece.first + piece.length
    while at < end and (chunk := os.pread(descriptor, min(BLOCK_BYTES, end - at), at)):
        digest.update(chunk)
        at += len(chunk)
    return digest.digest()


def _write(descriptor: int, at: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
