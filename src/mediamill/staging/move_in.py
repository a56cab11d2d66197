"""Every stored file of the data folder into the bucket: copied and named, checked, and deleted here only if asked.

Bytes are sent first and named afterwards, a batch at a time: whoever is killed leaves objects that a sweep finds, and
the next run compares what has a name with the file here, and does not send it again.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mediamill.db.connection import Database
from mediamill.staging import FAILED
from mediamill.staging import FOLDER as STAGED
from mediamill.staging.moving import (
    AREAS,
    Found,
    Moved,
    cut_unchecked,
    first_error,
    in_batches_of,
    is_same,
    next_batch,
    walk_stored,
)
from mediamill.staging.read_back import is_whole
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.contract import Sent
from mediamill.storage.sweep import list_broken

AT_ONCE = 4
COPYING, CHECKING, DELETING = "copying", "checking", "deleting"


@dataclass(frozen=True)
class MoveIn:
    """One run. Nothing else may work on the files meanwhile."""

    database: Database
    storage: BucketStorage
    moved: Moved

    async def copy(self) -> None:
        """What is not in the bucket yet; what cannot be read is a fault, and the rest goes on."""
        await asyncio.to_thread(cut_unchecked, self.storage.folder)
        batches = in_batches_of(walk_stored(self.storage.folder, self.moved.left_out))
        first_names: dict[tuple[int, int], str] = {}
        while batch := await asyncio.to_thread(next_batch, batches):
            await self._copy_batch(batch, first_names)

    async def _copy_batch(self, batch: list[Found], first_names: dict[tuple[int, int], str]) -> None:
        twins = {
            found.name: first
            for found in batch
            if found.inode and (first := first_names.setdefault(found.inode, found.name)) != found.name
        }
        alone = [found for found in batch if found.name not in twins]
        room = asyncio.Semaphore(AT_ONCE)
        with first_error():
            async with asyncio.TaskGroup() as group:
                sending = {found.name: group.create_task(self._send(found, room)) for found in alone}
        async with self.database.transaction() as connection:
            for name, task in sending.items():
                if (sent := task.result()) is not None:
                    await self.storage.give_name(connection, sent, name)
            for name, first in twins.items():
                pieces = await self.storage.pieces_of(connection, first)
                if await self.storage.pieces_of(connection, name) != pieces:
                    await self.storage.link(connection, first, name)
        for found in batch:
            copied = found.name in sending and sending[found.name].result() is not None
            self.moved.add(COPYING, found.bytes, copied=copied)

    async def _send(self, found: Found, room: asyncio.Semaphore) -> Sent | None:
        """None: it is there, or cannot be had."""
        async with room:
            async with self.database.connection() as connection:
                pieces = await self.storage.pieces_of(connection, found.name)
            try:
                if await asyncio.to_thread(is_same, found.path, pieces):
                    return None
                return await self.storage.send(found.path)
            except OSError as error:
                self.moved.faults.append(f"{found.name} cannot be read: {error.strerror or error}")
                return None

    async def check(self) -> None:
        """Is every object of every file there? What is not is sent once more, if it is here."""
        self.moved.show(CHECKING, self.moved)
        for name in await list_broken(self.database, self.storage):
            path = self.storage.folder / name
            if path.is_file() and not path.is_symlink():
                await self._send_again(path, name)
            else:
                self.moved.faults.append(
                    f"{name} has lost objects in the bucket, and is not in the data folder"
                )

    async def _send_again(self, path: Path, name: str) -> None:
        sent = await self.storage.send(path)
        async with self.database.transaction() as connection:
            await self.storage.give_name(connection, sent, name)
        self.moved.copied_files, self.moved.copied_bytes = (
            self.moved.copied_files + 1,
            self.moved.copied_bytes + sent.bytes,
        )

    async def delete(self) -> None:
        """Here, what is in the bucket to the last byte. Media that wait stay: a chat may look for them."""
        batches = in_batches_of(walk_stored(self.storage.folder, []))
        while batch := await asyncio.to_thread(next_batch, batches):
            for found in batch:
                if not found.name.startswith((f"{STAGED}/", f"{FAILED}/")):
                    await self._delete(found)
        await asyncio.to_thread(_remove_empty, self.storage.folder)

    async def _delete(self, found: Found) -> None:
        opened = await self.storage.open(self.database, found.name)
        same = opened is not None and await asyncio.to_thread(is_same, found.path, opened.pieces)
        if opened is None or not same or not await is_whole(opened):
            self.moved.faults.append(f"{found.name} is not the same in the bucket, and stays")
            return
        await asyncio.to_thread(found.path.unlink)
        self.moved.deleted_files += 1
        self.moved.show(DELETING, self.moved)


def _remove_empty(data_folder: Path) -> None:
    for area in AREAS:
        for folder, _, _ in os.walk(data_folder / area, topdown=False):
            with suppress(OSError):  # something is in it
                Path(folder).rmdir()
