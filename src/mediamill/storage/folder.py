"""Files in the data folder: a name is a path, and a file gets it by one rename."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mediamill.db.connection import Connection, Database, after_commit
from mediamill.storage.contract import Sent, Where
from mediamill.storage.deletions import deletions_wait

CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class PlainFile:
    """See OpenFile. By a descriptor, which is closed with it."""

    descriptor: int

    @property
    def length(self) -> int:
        """See OpenFile."""
        return os.fstat(self.descriptor).st_size

    @property
    def mark(self) -> str:
        """Made from where the file lies and when it was written."""
        found = os.fstat(self.descriptor)
        return f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"

    async def chunks(self, first: int, length: int) -> AsyncIterator[bytes]:
        """Read in a thread, bit by bit."""
        while length and (
            chunk := await asyncio.to_thread(os.pread, self.descriptor, min(length, CHUNK_BYTES), first)
        ):
            first, length = first + len(chunk), length - len(chunk)
            yield chunk

    def close(self) -> None:
        """See OpenFile."""
        os.close(self.descriptor)


def open_plain(path: Path, *, follow: bool = False) -> PlainFile | None:
    """A plain file; None if it is not there, a link, or anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return PlainFile(descriptor)
    os.close(descriptor)
    return None


@dataclass(frozen=True, slots=True)
class FolderStorage:
    """See Storage. Names change when they are told to, not with the transaction: best as its last step."""

    folder: Path

    async def send(self, path: Path) -> Sent:
        """Nothing is copied: the file is there already."""
        return Sent(path, (await asyncio.to_thread(path.lstat)).st_size)

    async def give_name(self, connection: Connection, sent: Sent, name: str) -> None:  # noqa: ARG002
        """By a rename; from another disk by a copy. One that lies there already stays."""
        if sent.path != self.folder / name:
            await asyncio.to_thread(put_plain, sent.path, self.folder / name)

    async def put_all(self, database: Database, files: Mapping[str, Path]) -> None:  # noqa: ARG002
        """See Storage."""
        await asyncio.to_thread(self._move_all, files)

    def _move_all(self, files: Mapping[str, Path]) -> None:
        for name, path in files.items():
            _put(path, self.folder / name)
        for folder in {(self.folder / name).parent for name in files}:
            sync_folder(folder)

    async def find(self, where: Where, name: str) -> Path:  # noqa: ARG002
        """Where it lies; whether it is there, whoever opens it finds out."""
        return self.folder / name

    async def open(self, where: Where, name: str) -> PlainFile | None:  # noqa: ARG002
        """See Storage. By no link."""
        return await asyncio.to_thread(open_plain, self.folder / name)

    async def sizes(self, connection: Connection, folder: str) -> dict[str, int]:  # noqa: ARG002
        """See Storage."""
        return await asyncio.to_thread(sizes_of, self.folder / folder)

    async def folders(self, connection: Connection, folder: str) -> list[str]:  # noqa: ARG002
        """See Storage."""
        names = await asyncio.to_thread(_list_folders, self.folder / folder)
        return [f"{folder}/{name}" for name in names]

    async def age_seconds(self, connection: Connection, folder: str) -> float:  # noqa: ARG002
        """See Storage."""
        try:
            return time.time() - (self.folder / folder).stat(follow_symlinks=False).st_mtime
        except FileNotFoundError:
            return 0.0

    async def count_in(self, connection: Connection, folder: str) -> int:  # noqa: ARG002
        """See Storage."""
        return await asyncio.to_thread(lambda: sum(1 for _ in (self.folder / folder).rglob("*")))

    async def move_folder(
        self,
        connection: Connection,  # noqa: ARG002
        source: str,
        target: str,
        names: Collection[str],
    ) -> None:
        """By one rename. If the transaction is cut off after it, `bring_back` undoes it."""
        await asyncio.to_thread(put_in_place, self.folder / source, self.folder / target, names)

    async def bring_back(self, source: str, target: str) -> None:
        """See Storage."""
        await asyncio.to_thread(bring_back, self.folder / source, self.folder / target)

    async def link_files(
        self,
        connection: Connection,  # noqa: ARG002
        source: str,
        target: str,
        names: Sequence[str],
    ) -> None:
        """See Storage."""
        await asyncio.to_thread(_link_all, self.folder / source, self.folder / target, names)

    async def drop(self, connection: Connection, *names: str) -> None:
        """In a thread: a folder may hold thousands of files. What stays because a backup is made, a sweep finds."""

        def remove() -> None:
            if not deletions_wait(self.folder):
                loop = asyncio.get_running_loop()
                loop.run_in_executor(None, self._remove_all, names)

        after_commit(connection, remove)

    async def remove_now(self, connection: Connection, *names: str) -> None:  # noqa: ARG002
        """See Storage."""
        await asyncio.to_thread(self._remove_all, names)

    async def remove(self, database: Database, names: Sequence[str]) -> None:  # noqa: ARG002
        """See Storage."""
        await asyncio.to_thread(self._remove_all, names)

    async def find_folder(self, where: Where, folder: str, names: Sequence[str]) -> Path:  # noqa: ARG002
        """See Storage."""
        return self.folder / folder

    async def old_folders(
        self,
        database: Database,  # noqa: ARG002
        root: str,
        older_than_seconds: float,
    ) -> AsyncIterator[list[str]]:
        """See Storage. A link is nothing of ours, and is left alone."""
        older_than = time.time() - older_than_seconds
        for shard in sorted(await asyncio.to_thread(_list_folders, self.folder / root)):
            yield await asyncio.to_thread(self._old_in, f"{root}/{shard}", older_than)

    async def old_files(
        self,
        database: Database,  # noqa: ARG002
        root: str,
        older_than_seconds: float,
    ) -> AsyncIterator[list[str]]:
        """See Storage. By no link."""
        older_than = time.time() - older_than_seconds
        folders = [root]
        while folders:
            folder = folders.pop()
            yield await asyncio.to_thread(self._old_files_in, folder, older_than)
            folders += [
                f"{folder}/{name}" for name in await asyncio.to_thread(_list_folders, self.folder / folder)
            ]

    def _old_files_in(self, folder: str, older_than: float) -> list[str]:
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder / folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if (
                        entry.is_file(follow_symlinks=False)
                        and entry.stat(follow_symlinks=False).st_mtime <= older_than
                    ):
                        found.append(f"{folder}/{entry.name}")
        return found

    def _remove_all(self, names: Sequence[str]) -> None:
        for name in names:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)  # which does not follow links
            else:
                path.unlink(missing_ok=True)

    def _old_in(self, shard: str, older_than: float) -> list[str]:
        found = []
        for name in _list_folders(self.folder / shard):
            with contextlib.suppress(OSError):
                if (self.folder / shard / name).stat(follow_symlinks=False).st_mtime <= older_than:
                    found.append(f"{shard}/{name}")
        return found


def put_in_place(source: Path, target: Path, names: Collection[str]) -> None:
    """The folder becomes `target` by one rename; files that nothing knows of do not come along."""
    for name in sizes_of(source).keys() - set(names):
        (source / name).unlink(missing_ok=True)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.exists():  # left by an attempt that was cut off
        shutil.rmtree(target)
    source.rename(target)
    sync_folder(target.parent)


def bring_back(source: Path, target: Path) -> None:
    """The work goes on though its files were put in place already: its end was cut off in between."""
    if target.is_dir() and not any(not name.startswith(".") for name in sizes_of(source)):
        shutil.rmtree(source, ignore_errors=True)
        source.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.rename(source)


def sizes_of(folder: Path) -> dict[str, int]:
    """The plain files of a folder."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: entry.stat(follow_symlinks=False).st_size
                for entry in entries
                if entry.is_file(follow_symlinks=False)
            }
    except FileNotFoundError:
        return {}


def sync_folder(folder: Path) -> None:
    """What is in it has its name also after a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_plain(path: Path, target: Path) -> None:
    """On the disk first, then under its name, then the name on the disk."""
    _put(path, target)
    sync_folder(target.parent)


def _put(path: Path, target: Path) -> None:
    _sync(path)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.move(path, target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_all(source: Path, folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        if not (folder / name).exists():
            os.link(source / name, folder / name, follow_symlinks=False)
    sync_folder(folder)


def _list_folders(root: Path) -> list[str]:
    """What is right in it; a link is nothing of ours."""
    try:
        if root.is_symlink():
            return []
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
