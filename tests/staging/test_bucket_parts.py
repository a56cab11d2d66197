"""Uploads into a bucket on a real S3 server: what came counts piece by piece, or with a checksum as a whole."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mediamill.db.connection import Database
from mediamill.staging import bucket_parts
from mediamill.staging.append import Inflow
from mediamill.staging.bucket_parts import BucketParts
from mediamill.staging.choose_parts import parts_of
from mediamill.staging.parts import HeldPart
from mediamill.staging.resumable import (
    BeyondLengthError,
    ChecksumMismatchError,
    OffsetMismatchError,
    PartFacts,
    PartMissingError,
    UploadLockedError,
)
from tests.storage.s3_server import S3Server, bucket, s3_server

__all__ = ["bucket", "s3_server"]
pytestmark = pytest.mark.spec("V1", "E23")

NAME = "videos/1/source"
DATA = bytes(range(256)) * 10  # two objects and a half


class Tap:
    """An inflow that gives so many bytes in one turn."""

    def __init__(self, data: bytes, turn: int) -> None:
        self.data, self.turn, self.left, self._now = data, turn, len(data), turn

    def read_into(self, buffer: memoryview) -> int:
        got = min(len(buffer), self._now, self.left)
        at = len(self.data) - self.left
        buffer[:got] = self.data[at : at + got]
        self.left, self._now = self.left - got, self._now - got
        return got

    async def turns(self) -> AsyncIterator[Inflow]:
        while self.left:
            self._now = self.turn
            yield self


async def chunks(*pieces: bytes, breaks: bool = False) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if breaks:
        raise ConnectionResetError


def in_chunks(data: bytes, size: int = 300) -> AsyncIterator[bytes]:
    return chunks(*[data[at : at + size] for at in range(0, len(data), size)])


@pytest.fixture
def parts(
    s3_server: S3Server, bucket: str, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> BucketParts:
    """With small objects."""
    monkeypatch.setattr(bucket_parts, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(bucket_parts, "POUR_BYTES", 400)
    found = parts_of(database, s3_server.settings(tmp_path, bucket))
    assert isinstance(found, BucketParts)
    return found


@pytest.fixture
async def upload_id(parts: BucketParts) -> UUID:
    upload_id = uuid4()
    async with parts.database.transaction() as connection:
        await connection.execute(
            "insert into uploads (id, purpose, name, bytes, expires_at) values ($1, 'video', 'a', 9999, now())",
            upload_id,
        )
    await parts.create(upload_id)
    return upload_id


async def content(parts: BucketParts, name: str) -> bytes | None:
    file = await parts.storage.open(parts.database, name)
    return None if file is None else b"".join([chunk async for chunk in file.chunks(0, file.length)])


async def sizes(parts: BucketParts, upload_id: UUID) -> list[int]:
    """Of the objects."""
    file = await parts.storage.open(parts.database, f"uploads/{upload_id}")
    return [] if file is None else [piece.length for piece in file.pieces]


async def test_an_upload_gathers_in_objects_and_becomes_a_stored_file(
    parts: BucketParts, upload_id: UUID
) -> None:
    assert await parts.facts(upload_id, NAME) == PartFacts(0, datetime.fromtimestamp(0, UTC))
    async with parts.hold(upload_id, NAME) as part:
        part.check_room(1 << 60)
        assert await part.append(in_chunks(DATA), offset=0, length=2_570, checksum=None) == 2_560
        assert part.size == 2_560
        assert await part.append(chunks(b"the end."), offset=2_560, length=2_568, checksum=None) == 2_568
    assert await sizes(parts, upload_id) == [1_000, 1_000, 560, 8]
    facts = await parts.facts(upload_id, NAME)
    assert facts is not None
    assert facts.size == 2_568
    assert facts.changed_at.year >= 2026
    async with parts.hold(upload_id, NAME) as part:
        assert part.size == 2_568
        assert (await part.sniff()).mime_type == "application/octet-stream"
        await part.move(NAME)
    assert await content(parts, NAME) == DATA + b"the end."
    async with parts.database.connection() as connection:
        assert await parts.has_moved(connection, NAME)
        assert not await parts.has_moved(connection, "videos/2/source")
    stored = await parts.sniff_stored(NAME)
    assert stored is not None
    assert await parts.sniff_stored("videos/2/source") is None
    assert await parts.facts(upload_id, NAME) is None
    with pytest.raises(PartMissingError):
        async with parts.hold(upload_id, NAME):
            raise AssertionError


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("turn", [70, 1_300, 9_999])
async def test_an_inflow_is_taken_by_turns(
    parts: BucketParts, upload_id: UUID, turn: int, checked: bool
) -> None:
    checksum = hashlib.sha256(DATA).digest() if checked else None
    async with parts.hold(upload_id, NAME) as part:
        await part.append(Tap(DATA, turn).turns(), offset=0, length=2_560, checksum=checksum)
        assert part.size == 2_560
    assert await content(parts, f"uploads/{upload_id}") == DATA
    assert await sizes(parts, upload_id) == [1_000, 1_000, 560]


@pytest.mark.parametrize("digest", [hashlib.sha256, hashlib.sha1])
async def test_a_chunk_with_a_checksum_counts_as_a_whole_or_not_at_all(
    parts: BucketParts, upload_id: UUID, digest: type
) -> None:
    async with parts.hold(upload_id, NAME) as part:
        await part.append(chunks(b"first"), offset=0, length=9_000, checksum=None)
        for source, error in ((in_chunks(DATA), ChecksumMismatchError), (chunks(DATA, breaks=True), OSError)):
            with pytest.raises(error):
                await part.append(source, offset=5, length=9_000, checksum=digest(b"other").digest())
            assert part.size == 5
        right = digest(DATA).digest()
        assert await part.append(in_chunks(DATA), offset=5, length=9_000, checksum=right) == 2_565
    assert await content(parts, f"uploads/{upload_id}") == b"first" + DATA


async def test_of_a_sender_that_breaks_off_or_sends_too_much_what_came_before_is_kept(
    parts: BucketParts, upload_id: UUID
) -> None:
    async with parts.hold(upload_id, NAME) as part:
        with pytest.raises(ConnectionResetError):
            await part.append(chunks(DATA, b"more", breaks=True), offset=0, length=9_000, checksum=None)
        assert part.size == 2_564
        with pytest.raises(OffsetMismatchError, match=r"has 2564 bytes, and the chunk begins at 2560"):
            await part.append(chunks(b"x"), offset=2_560, length=9_000, checksum=None)
        with pytest.raises(BeyondLengthError):
            await part.append(chunks(b"12345", b"6"), offset=2_564, length=2_569, checksum=None)
        assert part.size == 2_564, "what did not fill an object is thrown away with what is too much"
        tap = Tap(b"1234567", 4)
        with pytest.raises(BeyondLengthError):
            await part.append(tap.turns(), offset=2_564, length=2_570, checksum=None)
        assert tap.left == 7, "it is not begun"
        assert await part.append(chunks(b"12345"), offset=2_564, length=2_569, checksum=None) == 2_569
    assert await content(parts, f"uploads/{upload_id}") == DATA + b"more12345"


async def test_of_two_who_send_at_once_the_slower_is_told_and_changes_nothing(
    parts: BucketParts, upload_id: UUID
) -> None:
    async with parts.hold(upload_id, NAME) as one, parts.hold(upload_id, NAME) as other:
        await one.append(chunks(b"one"), offset=0, length=9, checksum=None)
        for checksum in (None, hashlib.sha256(b"other").digest()):
            with pytest.raises(UploadLockedError):
                await other.append(chunks(b"other"), offset=0, length=9, checksum=checksum)
        assert (one.size, other.size) == (3, 0)
    assert await content(parts, f"uploads/{upload_id}") == b"one"


async def test_an_upload_that_was_deleted_meanwhile_takes_nothing_more(
    parts: BucketParts, upload_id: UUID
) -> None:
    async with parts.hold(upload_id, NAME) as part:
        await part.append(chunks(b"one"), offset=0, length=9, checksum=None)
        async with parts.database.transaction() as connection:
            await connection.execute("delete from uploads where id = $1", upload_id)
        for step in (part.append(chunks(b"two"), offset=3, length=9, checksum=None), part.move(NAME)):
            with pytest.raises(PartMissingError):
                await step
        await part.delete()
    assert await content(parts, f"uploads/{upload_id}") is None


async def test_a_sender_that_is_cancelled_leaves_what_came(parts: BucketParts, upload_id: UUID) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield DATA
        begun.set()
        await asyncio.Event().wait()

    async def send(part: HeldPart) -> None:
        await part.append(endless(), offset=0, length=9_000, checksum=None)

    async with parts.hold(upload_id, NAME) as part:
        sending = asyncio.create_task(send(part))
        await begun.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert await content(parts, f"uploads/{upload_id}") == DATA
