"""Files in a bucket: their bytes are objects that never change, their names are rows, which change with transactions.

A file is one object, or several of PIECE_BYTES each: a large one is put piece by piece with bounded memory, and needs
no multipart upload of the bucket's own. An object is put first and has a name afterwards. Whoever dies in between
leaves an object that nothing names, and the sweep deletes it when it is old; whoever is slower than that is told to
put it again (LATE_SECONDS). A name that is dropped leaves its objects in the garbage for some days (`sweep.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mediamill.db.connection import Connection, Database
from mediamill.errors import RetryLaterError
from mediamill.storage.cache import Cache
from mediamill.storage.contract import Piece, Sent, StoredMissingError, Where
from mediamill.storage.objects import Objects, new_key
from mediamill.storage.store import queries

PIECE_BYTES = 16 << 20
READ_BYTES = 4 << 20
BATCH = 1_000
AT_ONCE = 3  # pieces of one file on their way, each in memory
ORPHAN_SECONDS = 86_400.0  # an object that has had no name for so long never gets one
LATE_SECONDS = ORPHAN_SECONDS / 2


class SentLongAgoError(RetryLaterError):
    """The file was sent too long ago to be given a name."""

    code = "sent_long_ago"


class NotPlainError(RetryLaterError):
    """What should be stored is not a plain file."""

    code = "not_plain"


@dataclass(frozen=True, slots=True)
class BucketFile:
    """See OpenFile. The next bytes are asked for while the last are on their way out."""

    objects: Objects
    pieces: tuple[Piece, ...]

    @property
    def length(self) -> int:
        """See OpenFile."""
        return self.pieces[-1].first + self.pieces[-1].length

    @property
    def mark(self) -> str:
        """Its first object is nobody else's."""
        return self.pieces[0].key.rpartition("/")[2]

    async def chunks(self, first: int, length: int) -> AsyncIterator[bytes]:
        """See OpenFile."""
        coming: asyncio.Task[bytes] | None = None
        try:
            for piece, start, amount in parts_of(self.pieces, first, length):
                asked = asyncio.create_task(self.objects.read(piece.key, start, amount))
                if coming is not None:
                    before, coming = coming, asked
                    yield await before
                else:
                    coming = asked
            if coming is not None:
                yield await coming
        finally:
            if coming is not None:
                coming.cancel()

    def close(self) -> None:
        """Nothing is open."""


def parts_of(pieces: Sequence[Piece], first: int, length: int) -> list[tuple[Piece, int, int]]:
    """Which bytes of which piece make up a range: (piece, from, how many), none longer than READ_BYTES."""
    parts, last = [], first + length
    for piece in pieces:
        at, end = max(first, piece.first), min(last, piece.first + piece.length)
        while at < end:
            amount = min(READ_BYTES, end - at)
            parts.append((piece, at - piece.first, amount))
            at += amount
    return parts


@dataclass(frozen=True, slots=True)
class BucketStorage:
    """See Storage."""

    folder: Path
    objects: Objects
    cache: Cache

    async def send(self, path: Path) -> Sent:
        """Piece by piece, some at once."""
        begun = time.monotonic()
        descriptor = await asyncio.to_thread(_open, path)
        try:
            size = os.fstat(descriptor).st_size
            room = asyncio.Semaphore(AT_ONCE)

            async def put(first: int) -> Piece:
                async with room:
                    data = await asyncio.to_thread(_read, descriptor, first)
                    return await self.put_piece(first, data)

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(put(first)) for first in range(0, size, PIECE_BYTES) or (0,)]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            os.close(descriptor)
        pieces = tuple(task.result() for task in tasks)
        return Sent(path, sum(piece.length for piece in pieces), pieces, begun)

    async def put_piece(self, first: int, data: bytes) -> Piece:
        """An object of its own for these bytes."""
        key, digest = new_key(), await asyncio.to_thread(hashlib.sha256, data)
        await self.objects.put(key, data)
        return Piece(first, len(data), key, digest.digest())

    async def give_name(self, connection: Connection, sent: Sent, name: str) -> None:
        """See Storage."""
        await queries.drop_names.run(connection, names=[name])
        await self.add_pieces(connection, sent, name)

    async def add_pieces(self, connection: Connection, sent: Sent, name: str) -> None:
        """What was sent, behind what there is of the file."""
        if time.monotonic() - sent.at_seconds > LATE_SECONDS:
            raise SentLongAgoError(fix="it is sent again with the next attempt")
        await queries.put_pieces.run(
            connection,
            name=name,
            firsts=[piece.first for piece in sent.pieces],
            bytes=[piece.length for piece in sent.pieces],
            keys=[piece.key for piece in sent.pieces],
            hashes=[piece.sha256 for piece in sent.pieces],
        )

    async def put_all(self, database: Database, files: Mapping[str, Path]) -> None:
        """See Storage. All of them get their names at once."""
        sent = {}
        for name, path in files.items():
            sent[name] = await self.send(path)
        async with database.transaction() as connection:
            for name, each in sent.items():
                await self.give_name(connection, each, name)
        for path in files.values():
            path.unlink(missing_ok=True)

    async def find(self, where: Where, name: str) -> Path:
        """See Storage. A copy in the cache, fetched if it is not there."""
        opened = await self.open(where, name)
        if opened is None:
            raise StoredMissingError(f"{name} is not in the bucket")
        return await self.cache.fetch(self.objects, opened.pieces)

    async def open(self, where: Where, name: str) -> BucketFile | None:
        """See Storage."""
        if isinstance(where, Database):
            async with where.connection() as connection:
                pieces = await self.pieces_of(connection, name)
        else:
            pieces = await self.pieces_of(where, name)
        return BucketFile(self.objects, pieces) if pieces else None

    async def pieces_of(self, connection: Connection, name: str) -> tuple[Piece, ...]:
        """In their order."""
        rows = await queries.list_pieces.rows(connection, name=name)
        return tuple(Piece(row["first"], row["bytes"], row["key"], row["sha256"]) for row in rows)

    async def facts(self, connection: Connection, name: str) -> tuple[int, datetime] | None:
        """How long a file is, and when the last of it came; None if there is none."""
        row = await queries.facts_of.row(connection, name=name)
        return None if row is None or row["noted_at"] is None else (row["bytes"], row["noted_at"])

    async def sizes(self, connection: Connection, folder: str) -> dict[str, int]:
        """See Storage."""
        rows = await queries.sizes_in.rows(connection, folder=folder)
        return {row["name"]: row["bytes"] for row in rows}

    async def folders(self, connection: Connection, folder: str) -> list[str]:
        """See Storage."""
        return [row["folder"] for row in await queries.folders_in.rows(connection, folder=folder)]

    async def age_seconds(self, connection: Connection, folder: str) -> float:
        """See Storage."""
        return await queries.age_of.value(connection, folder=folder) or 0.0

    async def size_in(self, connection: Connection, folder: str) -> int:
        """How much all files in a folder take up."""
        return int(await queries.size_in.value(connection, folder=folder))

    async def beyond_room(self, connection: Connection, folder: str, most_bytes: int) -> list[str]:
        """The oldest files of a folder, without which the rest fits."""
        rows = await queries.beyond_room.rows(connection, folder=folder, most_bytes=most_bytes)
        return [row["name"] for row in rows]

    async def count_in(self, connection: Connection, folder: str) -> int:
        """See Storage."""
        return int(await queries.count_in.value(connection, folder=folder))

    async def move_folder(
        self, connection: Connection, source: str, target: str, names: Collection[str]
    ) -> None:
        """See Storage. Rows only."""
        unknown = [f"{source}/{name}" for name in await self.sizes(connection, source) if name not in names]
        await queries.drop_names.run(connection, names=[target, *unknown])
        await queries.move_folder.run(connection, source=source, target=target)

    async def rename(self, connection: Connection, source: str, target: str) -> None:
        """One file; if it is not there, nothing happens."""
        if await self.facts(connection, source) is not None:
            await queries.drop_names.run(connection, names=[target])
            await queries.rename_file.run(connection, source=source, target=target)

    async def bring_back(self, source: str, target: str) -> None:
        """The transaction that was cut off has undone it."""

    async def link_files(
        self, connection: Connection, source: str, target: str, names: Sequence[str]
    ) -> None:
        """See Storage."""
        await queries.link_files.run(connection, source=source, target=target, names=list(names))

    async def link(self, connection: Connection, source: str, target: str) -> None:
        """One file gets a second name, in place of any file that had it."""
        await queries.drop_names.run(connection, names=[target])
        await queries.link_pieces.run(connection, source=source, target=target)

    async def names(self, database: Database) -> AsyncIterator[list[tuple[str, bool]]]:
        """Of all files, some at a time, and whether another has the same objects."""
        after = ""
        while True:
            async with database.connection() as connection:
                rows = await queries.page_names.rows(connection, after=after, batch=BATCH)
            yield [(row["name"], row["shared"]) for row in rows]
            if len(rows) < BATCH:
                return
            after = rows[-1]["name"]

    async def drop(self, connection: Connection, *names: str) -> None:
        """See Storage."""
        await queries.drop_names.run(connection, names=list(names))

    async def remove_now(self, connection: Connection, *names: str) -> None:
        """See Storage."""
        await queries.drop_names.run(connection, names=list(names))

    async def remove(self, database: Database, names: Sequence[str]) -> None:
        """See Storage."""
        async with database.transaction() as connection:
            await queries.drop_names.run(connection, names=list(names))

    async def find_folder(self, where: Where, folder: str, names: Sequence[str]) -> Path:
        """See Storage. Links to copies in the cache."""
        found: dict[str, Path] = {}
        for name in names:
            with suppress(StoredMissingError):
                found[name] = await self.find(where, f"{folder}/{name}")
        return await asyncio.to_thread(self.cache.gather, folder, found)

    async def old_files(
        self, database: Database, root: str, older_than_seconds: float
    ) -> AsyncIterator[list[str]]:
        """See Storage."""
        after = f"{root}/"
        while after:
            async with database.connection() as connection:
                rows = await queries.names_in.rows(
                    connection,
                    folder=root,
                    after=after,
                    older_than_seconds=float(older_than_seconds),
                    batch=BATCH,
                )
            yield [row["name"] for row in rows]
            after = rows[-1]["name"] if len(rows) == BATCH else ""

    async def old_folders(
        self, database: Database, root: str, older_than_seconds: float
    ) -> AsyncIterator[list[str]]:
        """See Storage."""
        async with database.connection() as connection:
            shards = await self.folders(connection, root)
        for shard in shards:
            async with database.connection() as connection:
                rows = await queries.old_folders.rows(
                    connection, shard=shard, older_than_seconds=float(older_than_seconds)
                )
            yield [row["folder"] for row in rows]


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlainError
    return descriptor


def _read(descriptor: int, first: int) -> bytes:
    parts, at = [], first
    while at < first + PIECE_BYTES and (part := os.pread(descriptor, first + PIECE_BYTES - at, at)):
        parts.append(part)
        at += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
