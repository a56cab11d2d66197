"""Every file of the bucket into the data folder: copied, checked, and its names given up only if asked.

A file is fetched beside and gets its name when it is whole and on the disk: whoever is killed leaves no half a file,
and the next run does not fetch what is here already.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mediamill.db.connection import Database
from mediamill.staging.move_in import AT_ONCE, CHECKING, COPYING, DELETING
from mediamill.staging.moving import Moved, check_name, first_error, is_same
from mediamill.storage.bucket import BucketFile, BucketStorage
from mediamill.storage.cache import DamagedObjectError
from mediamill.storage.contract import StoredMissingError
from mediamill.storage.folder import put_plain, sync_folder

SCRATCH = "scratch"  # no backup takes it along


class MoveOut:
    """One run. Nothing else may work on the files meanwhile."""

    def __init__(self, database: Database, storage: BucketStorage, moved: Moved) -> None:
        self._database, self._storage, self._moved = database, storage, moved
        self._folder = storage.folder
        self._first_paths: dict[tuple[str, ...], Path] = {}

    async def copy(self) -> None:
        """What is not in the data folder yet; what cannot be had is a fault, and the rest goes on."""
        (self._folder / SCRATCH).mkdir(mode=0o700, parents=True, exist_ok=True)
        room = asyncio.Semaphore(AT_ONCE)
        async for names in self._storage.names(self._database):
            with first_error():
                async with asyncio.TaskGroup() as group:
                    for name, shared in names:
                        if not shared:
                            group.create_task(self._copy(name, room))
            for name, shared in names:  # one after the other: a file here may have several names, too
                if shared:
                    await self._copy(name, room, shared=True)

    async def _copy(self, name: str, room: asyncio.Semaphore, *, shared: bool = False) -> None:
        async with room:
            if (fault := check_name(name)) is not None:
                self._moved.faults.append(fault)
                return
            file, path = await self._open(name), self._folder / name
            keys = tuple(piece.key for piece in file.pieces)
            there = await asyncio.to_thread(is_same, path, file.pieces)
            try:
                if not there:
                    await self._bring(file, path, self._first_paths.get(keys))
            except (StoredMissingError, DamagedObjectError, OSError) as error:
                self._moved.faults.append(f"{name}: {getattr(error, 'message', error)}")
                return
            if shared:
                self._first_paths.setdefault(keys, path)
            self._moved.add(COPYING, file.length, copied=not there)

    async def _open(self, name: str) -> BucketFile:
        file = await self._storage.open(self._database, name)
        assert file is not None
        return file

    async def _bring(self, file: BucketFile, path: Path, twin: Path | None) -> None:
        part = self._folder / SCRATCH / f"move-{file.mark}"
        if twin is not None:
            await asyncio.to_thread(_link, twin, part, path)
            return
        try:
            await self._storage.cache.fetch_to(self._storage.objects, file.pieces, part)
            await asyncio.to_thread(put_plain, part, path)
        finally:
            part.unlink(missing_ok=True)

    async def check(self) -> None:
        """Is every file here, with its size? Its bytes were compared when it came."""
        self._moved.show(CHECKING, self._moved)
        async for names in self._storage.names(self._database):
            async with self._database.connection() as connection:
                facts = {name: await self._storage.facts(connection, name) for name, _ in names}
            bad = await asyncio.to_thread(_find_bad, self._folder, facts.items())
            self._moved.faults += [f"{name} is not in the data folder as it should be" for name in bad]

    async def delete(self) -> None:
        """Names in the bucket whose file here is the same to the last byte. Objects go as those of deleted files do."""
        async for names in self._storage.names(self._database):
            same = []
            for name, _ in names:
                file = await self._open(name)
                if await asyncio.to_thread(is_same, self._folder / name, file.pieces):
                    same.append(name)
                else:
                    self._moved.faults.append(f"{name} is not the same in the data folder, and stays")
            await self._storage.remove(self._database, same)
            self._moved.deleted_files += len(same)
            self._moved.show(DELETING, self._moved)


def _find_bad(folder: Path, facts: Iterable[tuple[str, tuple[int, Any] | None]]) -> list[str]:
    bad = []
    for name, found in facts:
        path = folder / name
        if found is None or not path.is_file() or path.is_symlink() or path.stat().st_size != found[0]:
            bad.append(name)
    return bad


def _link(twin: Path, part: Path, path: Path) -> None:
    part.unlink(missing_ok=True)
    os.link(twin, part, follow_symlinks=False)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part.replace(path)
    sync_folder(path.parent)
