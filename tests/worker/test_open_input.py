"""The file of a job, opened for a child that cannot: what it gets, and why it gets none."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from mediamill.worker import open_input as open_input_file
from mediamill.worker.messages import MOST_FILES
from mediamill.worker.open_input import OpenInput, can_list, open_input, run_unless_stuck
from tests.worker.harness import opened_now, wait_until


async def test_a_file_is_opened_once_and_closed_when_the_child_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"the file")
    given = await open_input(path)
    assert (len(given.descriptors), given.members, given.failed) == (1, None, 0)
    assert os.pread(given.descriptors[0], 99, 0) == b"the file"
    assert given.size_bytes == 8
    assert str(path) in opened_now()
    given.close()
    assert str(path) not in opened_now()


async def test_of_a_folder_those_members_are_opened_that_are_there(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * 3)
    given = await open_input(tmp_path, ["b", "missing", "a"])
    assert (given.members, given.failed, given.size_bytes) == (("b", "a"), 0, 6)
    assert [os.pread(each, 9, 0) for each in given.descriptors] == [b"bbb", b"aaa"]
    given.close()
    assert (await open_input(tmp_path, [])) == OpenInput((), ())
    assert await open_input(tmp_path / "nowhere", ["a"]) == OpenInput(failed=errno.ENOENT)
    many = await open_input(tmp_path, [*["missing"] * (MOST_FILES - 1), "a", "b"])
    assert many.members == ("a",), "no more go with one message"
    many.close()


@pytest.mark.parametrize("name", ["missing", "missing/a", "file/a"])
async def test_a_file_that_cannot_be_opened_is_a_number(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    expected = errno.ENOTDIR if name.startswith("file") else errno.ENOENT
    assert await open_input(tmp_path / name) == OpenInput(failed=expected)


@pytest.mark.parametrize(
    ("error", "place", "number"),
    [
        (OSError(errno.EIO, "no"), True, errno.EIO),
        (OSError(errno.EIO, "no"), False, errno.ESTALE),
        (OSError(errno.EACCES, "no"), False, errno.EACCES),
        (OSError("no number"), True, errno.EIO),
    ],
)
async def test_a_share_that_is_gone_is_told_from_a_bad_sector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, place: bool, number: int
) -> None:
    def refuse(_path: Path) -> NoReturn:
        raise error

    monkeypatch.setattr(open_input_file, "open_quietly", refuse)
    folder = tmp_path if place else tmp_path / "gone"
    assert await open_input(folder / "a") == OpenInput(failed=number)


async def test_a_place_answers_or_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await can_list(tmp_path)
    assert not await can_list(tmp_path / "gone")
    let_go = threading.Event()

    def hang(_folder: object) -> NoReturn:
        let_go.wait()
        raise OSError

    monkeypatch.setattr(open_input_file, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(open_input_file, "_can_list", hang)
    monkeypatch.setattr(open_input_file, "open_quietly", hang)
    assert not await can_list(tmp_path)
    assert await open_input(tmp_path / "a") == OpenInput(failed=errno.ETIMEDOUT)
    let_go.set()


async def test_what_was_opened_too_late_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    let_go, done = threading.Event(), threading.Event()

    def open_late() -> OpenInput:
        let_go.wait()
        found = OpenInput((os.open(path, os.O_RDONLY),))
        done.set()
        return found

    with pytest.raises(TimeoutError):
        await run_unless_stuck(open_late, 0.05)
    let_go.set()
    await asyncio.to_thread(done.wait)
    await wait_until(lambda: str(path) not in opened_now(), "it is closed")


async def test_an_error_of_the_thread_is_that_of_whoever_waits() -> None:
    def fail() -> NoReturn:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_unless_stuck(fail, 60)
    assert await run_unless_stuck(lambda: 7, 60) == 7
