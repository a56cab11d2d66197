"""Appending to a part file while the disk catches up: what is synced early, and what happens when it gets full."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mediamill.staging import append as append_file
from mediamill.staging.append import append
from mediamill.staging.quota import StorageFullError
from mediamill.staging.resumable import BeyondLengthError, create_part, hold_part, part_path


class Water:
    """An inflow that gives so many bytes in one turn."""

    def __init__(self, left: int) -> None:
        self.left, self.asked = left, list[int]()

    def read_into(self, buffer: memoryview) -> int:
        self.asked.append(len(buffer))
        got = min(len(buffer), self.left)
        buffer[:got] = b"w" * got
        self.left -= got
        return got


async def pieces(*given: bytes | Water) -> AsyncIterator[bytes | Water]:
    for piece in given:
        yield piece


@pytest.fixture
async def upload_id(tmp_path: Path) -> UUID:
    upload_id = uuid4()
    await create_part(tmp_path, upload_id)
    return upload_id


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much was in the file each time that it was brought to the disk; small steps, so that there are several."""
    sizes: list[int] = []
    fsync = os.fsync

    def count(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(append_file, "WRITE_BYTES", 100)
    monkeypatch.setattr(append_file, "SYNC_BYTES", 1_000)
    monkeypatch.setattr(os, "fsync", count)
    return sizes


async def test_the_disk_begins_to_write_while_more_arrives(
    tmp_path: Path, upload_id: UUID, synced: list[int]
) -> None:
    with hold_part(tmp_path, upload_id) as part:
        assert await append(part, pieces(*[b"x" * 100] * 9), offset=0, length=5_000) == 900
        assert synced == [900], "so little is only brought to the disk at the end"
        synced.clear()
        assert await append(part, pieces(*[b"y" * 100] * 30), offset=900, length=5_000) == 3_900
    assert len(synced) >= 2
    assert synced[-1] == 3_900
    assert part_path(tmp_path, upload_id).read_bytes() == b"x" * 900 + b"y" * 3_000


async def test_an_inflow_is_brought_to_the_disk_early_too(
    tmp_path: Path, upload_id: UUID, synced: list[int]
) -> None:
    water = Water(1_500)
    with hold_part(tmp_path, upload_id) as part:
        assert await append(part, pieces(b"ab", water, b"cd"), offset=0, length=1_504) == 1_504
    assert len(synced) == 2
    assert set(water.asked) == {1 << 19}
    assert part_path(tmp_path, upload_id).read_bytes() == b"ab" + b"w" * 1_500 + b"cd"


@pytest.mark.usefixtures("synced")
async def test_a_disk_that_others_fill_meanwhile_stops_the_upload_and_keeps_what_came(
    tmp_path: Path, upload_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    class Facts:
        f_frsize = 1

        @property
        def f_bavail(self) -> int:
            asked.append(None)
            return 1 << 40 if len(asked) == 1 else 0

    monkeypatch.setattr(os, "statvfs", lambda _: Facts())
    with hold_part(tmp_path, upload_id) as part:
        with pytest.raises(StorageFullError, match="0 bytes are to come, and 0 fit"):
            await append(part, pieces(*[b"x" * 100] * 30), offset=0, length=5_000)
        assert 1_000 <= part.size < 3_000
        assert len(asked) == 2


async def test_a_chunk_that_ends_where_the_upload_does_is_taken(tmp_path: Path, upload_id: UUID) -> None:
    with hold_part(tmp_path, upload_id) as part:
        assert await append(part, pieces(b"12", Water(3)), offset=0, length=5) == 5


async def test_an_inflow_that_comes_by_turns_is_taken_to_its_end_and_no_further(
    tmp_path: Path, upload_id: UUID
) -> None:
    class Tap(Water):
        """Two bytes in each turn."""

        def read_into(self, buffer: memoryview) -> int:
            turn_is_over = len(self.asked) % 2
            self.asked.append(len(buffer))
            if turn_is_over:
                return 0
            buffer[:2] = b"ww"
            self.left -= 2
            return 2

    tap = Tap(6)
    with hold_part(tmp_path, upload_id) as part:
        assert await append(part, pieces(tap, tap, tap), offset=0, length=6) == 6
        with pytest.raises(BeyondLengthError):
            await append(part, pieces(Water(2), Water(1)), offset=6, length=8)
        assert part.size == 6


@pytest.mark.usefixtures("synced")
async def test_a_sender_that_breaks_off_is_told_so_whatever_the_disk_says_meanwhile(
    tmp_path: Path, upload_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100
        raise ConnectionResetError

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", fail)
    with hold_part(tmp_path, upload_id) as part:
        with pytest.raises(ConnectionResetError):
            await append(part, broken(), offset=0, length=5_000)
        assert part.size == 1_100
