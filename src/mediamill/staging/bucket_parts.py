"""Uploads into a bucket: every few megabytes an object, and a row in the database which says that they have come.

Nobody is locked out: whoever adds behind an end that has moved meanwhile is told that somebody else is sending. So an
upload goes on through any server, and a server that dies takes at most what it had not put yet with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from mediamill.db.connection import Connection, Database
from mediamill.media.sniff import Sniffed, sniff_file
from mediamill.staging.append import POUR_BYTES, Inflow, new_hash, pouring
from mediamill.staging.parts import HeldPart
from mediamill.staging.resumable import (
    FOLDER,
    BeyondLengthError,
    ChecksumMismatchError,
    OffsetMismatchError,
    PartFacts,
    PartMissingError,
    UploadLockedError,
)
from mediamill.staging.store import queries
from mediamill.storage.bucket import PIECE_BYTES, BucketFile, BucketStorage
from mediamill.storage.contract import Piece, Sent
from mediamill.storage.reader import as_file


@dataclass(frozen=True, slots=True)
class BucketParts:
    """See Parts."""

    database: Database
    storage: BucketStorage

    async def create(self, upload_id: UUID) -> None:
        """Nothing is there until something comes: its row is enough."""

    async def facts(self, upload_id: UUID, name: str) -> PartFacts | None:
        """See Parts."""
        async with self.database.connection() as connection:
            found = await self.storage.facts(connection, f"{FOLDER}/{upload_id}")
            if found is not None:
                return PartFacts(*found)
            stored = await self.storage.facts(connection, name)
        return None if stored is not None else PartFacts(0, datetime.fromtimestamp(0, UTC))

    @asynccontextmanager
    async def hold(self, upload_id: UUID, name: str) -> AsyncIterator[HeldPart]:
        """See Parts."""
        facts = await self.facts(upload_id, name)
        if facts is None:
            raise PartMissingError
        yield _BucketPart(self, upload_id, facts.size)

    async def has_moved(self, connection: Connection, name: str) -> bool:
        """See Parts."""
        return await self.storage.facts(connection, name) is not None

    async def sniff_stored(self, name: str) -> Sniffed | None:
        """See Parts."""
        file = await self.storage.open(self.database, name)
        return None if file is None else await asyncio.to_thread(_sniff, file)


class _BucketPart:
    def __init__(self, parts: BucketParts, upload_id: UUID, size: int) -> None:
        self._parts, self._id, self.size = parts, upload_id, size
        self._name = f"{FOLDER}/{upload_id}"

    def check_room(self, length: int) -> None:
        """A bucket does not say how much room it has."""

    async def append(
        self, pieces: AsyncIterable[bytes | Inflow], *, offset: int, length: int, checksum: bytes | None
    ) -> int:
        if self.size != offset:
            raise OffsetMismatchError(
                f"the upload has {self.size} bytes, and the chunk begins at {offset}",
                fix="ask by HEAD where it ends, and go on from there",
            )
        appender = _Appender(self, offset, length - offset, checksum)
        try:
            async for piece in pieces:
                await appender.add(piece)
            await appender.finish()
        except BaseException as error:
            await appender.stop(error)
            raise
        return self.size

    async def put(self, first: int, data: bytes) -> Piece:
        return await self._parts.storage.put_piece(first, data)

    async def note(self, begun: float, *pieces: Piece) -> None:
        """They have come, if nobody else has added anything meanwhile. `begun`: when the first of them was put."""
        if not pieces:
            return
        storage, sent = self._parts.storage, Sent(self._parts.storage.folder, 0, pieces, begun)
        async with self._parts.database.transaction() as connection:
            await self._lock(connection)
            facts = await storage.facts(connection, self._name)
            if (facts[0] if facts else 0) != pieces[0].first:
                raise UploadLockedError(fix="wait until it has ended, then ask by HEAD where to go on")
            await storage.add_pieces(connection, sent, self._name)
        self.size = pieces[-1].first + pieces[-1].length

    async def sniff(self) -> Sniffed:
        found = await self._parts.sniff_stored(self._name)
        assert found is not None
        return found

    async def move(self, name: str) -> None:
        async with self._parts.database.transaction() as connection:
            await self._lock(connection)
            await self._parts.storage.rename(connection, self._name, name)

    async def delete(self) -> None:
        await self._parts.storage.remove(self._parts.database, [self._name])

    async def _lock(self, connection: Connection) -> None:
        if await queries.hold_upload.value(connection, id=self._id) is None:
            raise PartMissingError


class _Appender:
    """While one object is put, the next gathers. A chunk with a checksum counts as a whole or not at all."""

    def __init__(self, part: _BucketPart, first: int, most_bytes: int, checksum: bytes | None) -> None:
        self._part, self._first, self._left, self._expected = part, first, most_bytes, checksum
        self._hash = new_hash(checksum)
        self._gathered = bytearray()
        self._putting: asyncio.Task[Piece] | None = None
        self._unchecked: list[Piece] = []
        self._begun = time.monotonic()

    async def add(self, piece: bytes | Inflow) -> None:
        coming = len(piece) if isinstance(piece, bytes) else piece.left
        if coming > self._left:
            raise BeyondLengthError(fix="begin a new upload, with the length that it has")
        if isinstance(piece, bytes):
            self._gathered += piece
            self._left -= len(piece)
            await self._put_full()
        else:
            before = piece.left
            while await asyncio.get_running_loop().run_in_executor(pouring, self._pour, piece):
                await self._put_full()
            await self._put_full()
            self._left -= before - piece.left

    def _pour(self, inflow: Inflow) -> bool:
        """In a thread; False: no more in this turn."""
        buffer = memoryview(bytearray(POUR_BYTES))
        while len(self._gathered) < PIECE_BYTES:
            got = inflow.read_into(buffer)
            if not got:
                return False
            self._gathered += buffer[:got]
        return True

    async def finish(self) -> None:
        await self._put_rest()
        if self._expected is not None:
            if self._hash.digest() != self._expected:
                raise ChecksumMismatchError(fix="send the chunk again")
            await self._part.note(self._begun, *self._unchecked)

    async def stop(self, error: BaseException) -> None:
        """Keep what came, unless it cannot be known to be right."""
        try:
            if self._expected is None and not isinstance(error, BeyondLengthError | UploadLockedError):
                await asyncio.shield(self._put_rest())
        finally:
            if self._putting is not None:
                self._putting.cancel()

    async def _put_full(self) -> None:
        while len(self._gathered) >= PIECE_BYTES:
            await self._begin(bytes(self._gathered[:PIECE_BYTES]))
            del self._gathered[:PIECE_BYTES]

    async def _put_rest(self) -> None:
        if self._gathered:
            data, self._gathered = bytes(self._gathered), bytearray()
            await self._begin(data)
        await self._noted()

    async def _begin(self, data: bytes) -> None:
        await self._noted()
        if self._expected is not None:
            await asyncio.to_thread(self._hash.update, data)
        if not self._unchecked:
            self._begun = time.monotonic()
        self._putting = asyncio.create_task(self._part.put(self._first, data))
        self._first += len(data)

    async def _noted(self) -> None:
        if self._putting is None:
            return
        putting, self._putting = self._putting, None
        piece = await putting
        if self._expected is not None:
            self._unchecked.append(piece)
        else:
            await self._part.note(self._begun, piece)


def _sniff(file: BucketFile) -> Sniffed:
    with as_file(file) as opened:
        return sniff_file(opened)
