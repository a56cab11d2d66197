"""Bytes on their way in: whole, as they are on the disk, and under a name of our own until they have their place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.intake.receive import (
    ChangedFileError,
    UnreadableFileError,
    open_regular,
    read_chunks,
    receive_file,
)
from mediamill.settings import Settings
from mediamill.staging.put import UploadTooLargeError
from tests.intake.played import in_pieces
from tests.open_files import open_files

pytestmark = pytest.mark.spec("P1")


async def test_what_arrives_is_a_file_that_only_we_may_read_until_the_block_ends(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", upload_limit_bytes=9)
    for _ in range(2):
        async with receive_file(settings, in_pieces(b"%PDF", b"-1.7\n")) as arrived:
            assert arrived.sent.path.read_bytes() == b"%PDF-1.7\n"
            assert arrived.content.sha256 == hashlib.sha256(b"%PDF-1.7\n").digest()
            assert (arrived.content.bytes, arrived.content.mime_type) == (9, "application/pdf")
            folder = arrived.sent.path.parent
            assert (folder, folder.stat().st_mode & 0o777) == (tmp_path / "data" / "intake" / "parts", 0o700)
        assert list(folder.iterdir()) == []


async def test_a_byte_too_many_is_refused_with_the_setting_that_says_so(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, upload_limit_bytes=9)
    with pytest.raises(UploadTooLargeError, match="9 bytes") as refused:
        async with receive_file(settings, in_pieces(b"123456789", b"0")):
            raise AssertionError("it is too large")
    assert "MEDIAMILL_UPLOAD_LIMIT_BYTES" in (refused.value.fix or "")
    assert list((tmp_path / "intake" / "parts").iterdir()) == []


async def test_it_is_on_the_disk_before_anybody_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    async with receive_file(Settings(data=tmp_path), in_pieces(b"a")) as arrived:
        assert str(arrived.sent.path) in synced
    assert open_files(tmp_path) == []


async def chunks_of(path: Path, expected: tuple[int, int] | None = None) -> AsyncIterator[bytes]:
    descriptor = open_regular(path)
    try:
        async for chunk in read_chunks(descriptor, expected):
            yield chunk
    finally:
        os.close(descriptor)


async def test_a_file_is_read_as_it_was_seen_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 3_000_000)
    os.utime(path, ns=(5, 5))
    assert b"".join([chunk async for chunk in chunks_of(path, (5, 3_000_000))]) == path.read_bytes()
    for other in ((6, 3_000_000), (5, 2_999_999)):
        with pytest.raises(ChangedFileError) as changed:
            await anext(chunks_of(path, other))
        assert changed.value.code == "file_changed"
    reading = chunks_of(path)
    assert len(await anext(reading)) < 3_000_000, "a little at a time"
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(ChangedFileError):
        [chunk async for chunk in reading]


def test_what_is_no_plain_file_is_not_opened_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", "not a regular file"), ("", "not a regular file"), ("none", "No such file")):
        with pytest.raises(UnreadableFileError, match=why) as refused:
            open_regular(tmp_path / name)
        assert refused.value.code == "unreadable_file"
    assert open_files(tmp_path) == []


async def test_a_disk_that_fails_is_the_file_that_cannot_be_read(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)  # a folder cannot be read like a file
    try:
        with pytest.raises(UnreadableFileError, match="Is a directory"):
            await anext(read_chunks(descriptor))
    finally:
        os.close(descriptor)
