"""Files are staged whole or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.staging import put, staging_folder
from mediamill.staging.put import EmptyUploadError, UploadTooLargeError, drop_staged, put_chunks
from mediamill.staging.quota import StagingRoom, StorageFullError


async def chunks(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def names(folder: Path) -> list[str]:
    there = staging_folder(folder)
    return sorted(path.name for path in there.iterdir()) if there.exists() else []


async def stage(
    folder: Path, source: AsyncIterator[bytes], room: StagingRoom | None = None, **more: Any
) -> int:
    limits = {"quota_bytes": 10_000_000, "limit_bytes": 5_000_000, **more}
    return await put_chunks(folder, "g-1", source, room or StagingRoom(folder), **limits)


async def test_chunks_become_one_file_and_are_counted(tmp_path: Path) -> None:
    room = StagingRoom(tmp_path)
    assert await stage(tmp_path, chunks(b"a" * 700_000, b"b" * 700_000, b"", b"c"), room) == 1_400_001
    staged = staging_folder(tmp_path) / "g-1"
    assert staged.read_bytes() == b"a" * 700_000 + b"b" * 700_000 + b"c"
    assert room.used_bytes == 1_400_001
    assert staged.parent.stat().st_mode & 0o777 == 0o700
    drop_staged(tmp_path, "g-1")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("pieces", "more", "error"),
    [
        ((), {}, EmptyUploadError),
        ((b"x" * 5_000_001,), {}, UploadTooLargeError),
        ((b"x",), {"announced_bytes": 5_000_001}, UploadTooLargeError),
        ((b"x" * 2_000_000,), {"quota_bytes": 1_500_000}, StorageFullError),
        ((b"x",), {"quota_bytes": 1_500_000, "announced_bytes": 2_000_000}, StorageFullError),
    ],
)
async def test_what_is_refused_leaves_nothing(
    tmp_path: Path, pieces: tuple[bytes, ...], more: dict[str, Any], error: type[Exception]
) -> None:
    room = StagingRoom(tmp_path)
    with pytest.raises(error):
        await stage(tmp_path, chunks(*pieces), room, **more)
    assert names(tmp_path) == []
    assert room.used_bytes in (0, None)


async def test_a_source_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await stage(tmp_path, broken())
    assert names(tmp_path) == []


async def test_whoever_is_cancelled_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        begun.set()
        await asyncio.Event().wait()

    room = StagingRoom(tmp_path)
    staging = asyncio.create_task(stage(tmp_path, endless(), room))
    await begun.wait()
    assert names(tmp_path) == ["g-1.part"]
    staging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await staging
    assert (names(tmp_path), room.used_bytes) == ([], 0)


async def test_whoever_is_cancelled_while_the_file_gets_its_name_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, keep = asyncio.get_running_loop(), put._keep
    staging: asyncio.Task[int] | None = None

    def cancel_first(*args: Any) -> None:
        assert staging is not None
        asyncio.run_coroutine_threadsafe(_cancel(staging), loop).result()
        keep(*args)

    async def _cancel(task: asyncio.Task[int]) -> None:
        task.cancel()

    monkeypatch.setattr(put, "_keep", cancel_first)
    staging = asyncio.create_task(stage(tmp_path, chunks(b"media")))
    with pytest.raises(asyncio.CancelledError):
        await staging
    assert names(tmp_path) == []


async def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="disk is full"):
        await stage(tmp_path, chunks(b"media"))
    assert names(tmp_path) == []


async def test_the_first_file_of_an_installation_makes_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    assert await stage(folder, chunks(b"media")) == 5
    assert names(folder) == ["g-1"]
