"""Files that workers send: bounded, hashed on the way, there as long as somebody looks at them."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mediamill.staging import received
from mediamill.staging.quota import StorageFullError
from mediamill.staging.received import FileTooLargeError, HashMismatchError, Received, check_hash, receive


class Disk(NamedTuple):
    total: int
    used: int
    free: int


async def chunks(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def content(path: Path) -> bytes:
    return path.read_bytes()


async def take(part: Path, *pieces: bytes, **more: Any) -> tuple[Received, bytes]:
    async with receive(part, chunks(*pieces), **{"limit_bytes": 10, **more}) as came:
        return came, content(part)


async def test_what_comes_is_there_with_its_size_and_hash_until_nobody_wants_it(tmp_path: Path) -> None:
    part = tmp_path / "part"
    came, whole = await take(part, b"12345", b"", b"67890", announced_bytes=10)
    assert came == Received(part, 10, hashlib.sha256(b"1234567890").hexdigest())
    assert whole == b"1234567890"
    assert not part.exists()
    check_hash(came, None)
    check_hash(came, came.sha256.upper())
    with pytest.raises(HashMismatchError, match=r"announced 00, received .* \(10 bytes\)"):
        check_hash(came, "00")
    async with receive(part, chunks(b"a"), limit_bytes=1) as came:
        assert part.stat().st_mode & 0o777 == 0o600
        part.rename(tmp_path / "taken")
    assert (tmp_path / "taken").read_bytes() == b"a"


async def test_more_than_may_be_is_refused_before_it_comes_or_when_it_does(tmp_path: Path) -> None:
    for pieces, more in (((b"12345", b"678901"), {}), ((), {"announced_bytes": 11})):
        with pytest.raises(FileTooLargeError, match="may have 10 bytes"):
            await take(tmp_path / "part", *pieces, **more)
        assert not (tmp_path / "part").exists()


async def test_a_file_that_is_there_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        await take(tmp_path / "part", b"a")
    assert (tmp_path / "part").read_bytes() == b"precious"


async def test_a_quarter_of_a_gigabyte_stays_free_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 256 * 1024**2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(0, 0, free + 10))
    assert (await take(tmp_path / "part", b"1234567890", announced_bytes=10))[0].bytes == 10
    with pytest.raises(StorageFullError, match="nearly full"):
        await take(tmp_path / "part", b"", announced_bytes=11, limit_bytes=20)
    # What has come counts as free: it is there already.
    (tmp_path / "part").write_bytes(b"1234567890")
    received._check_size(tmp_path / "part", 20, 20)
    with pytest.raises(StorageFullError):
        received._check_size(tmp_path / "part", 21, 21)


async def test_the_disk_is_looked_at_every_sixteen_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(received, "_check_size", lambda _part, size, _limit: looks.append(size))
    whole = bytes(16 * 1024**2)
    await take(tmp_path / "part", whole, b"1", b"2", limit_bytes=1 << 40)
    assert looks == [len(whole) + 1]


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, StorageFullError), (errno.EIO, OSError)])
async def test_a_disk_that_is_full_is_told_as_such_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, "no")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        with pytest.raises(error) as caught:
            await take(tmp_path / "part", b"a")
    assert isinstance(caught.value, StorageFullError) is (number == errno.ENOSPC)
    assert not (tmp_path / "part").exists()


async def test_a_disk_may_take_a_part_of_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, view: write(descriptor, view[:2]))
        assert (await take(tmp_path / "part", b"12345"))[1] == b"12345"
