"""Files are taken out of a scratch folder so that their maker cannot change them any more."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mediamill.engine.model import failure_of
from mediamill.worker import scratch, seccomp
from mediamill.worker.failures import InvalidOutputError
from mediamill.worker.scratch import take_files
from tests.worker.refused_calls import COPY_FILE_RANGE, WRITE, refuse_call


def test_a_file_with_a_second_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "one").write_text("x")
    (tmp_path / "made" / "two").hardlink_to(tmp_path / "made" / "one")
    with pytest.raises(InvalidOutputError, match="a link"):
        take_files(tmp_path / "made", {"x": "one"}, tmp_path / "taken")


def test_a_file_and_a_folder_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a").write_text("x")
    take_files(tmp_path / "made", {"x": "a"}, tmp_path / "taken")
    with pytest.raises(InvalidOutputError, match=r"a link is in the way|File exists"):
        take_files(tmp_path / "made", {"y": "a/b"}, tmp_path / "taken")


def test_a_file_that_nobody_writes_to_is_moved_and_not_copied(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "film").write_text("large")
    before = (tmp_path / "made" / "film").stat().st_ino
    take_files(tmp_path / "made", {"x": "film"}, tmp_path / "taken")
    assert (tmp_path / "taken" / "film").stat().st_ino == before


@pytest.mark.skipif(not seccomp.is_available(), reason="no filter on system calls here")
@pytest.mark.parametrize("refusal", ["EXDEV", "EINVAL", "EOPNOTSUPP", "ENOSYS", "EPERM", "EBADF"])
def test_a_file_that_is_held_open_is_copied_even_where_the_kernel_does_not_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    monkeypatch.setattr(scratch, "PIECE_BYTES", 1000)
    content = os.urandom(2500)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "film").write_bytes(content)
    with (tmp_path / "made" / "film").open("r+b", buffering=0) as held:

        def take() -> None:
            refuse_call(COPY_FILE_RANGE, getattr(errno, refusal))
            with pytest.raises(OSError, match=os.strerror(getattr(errno, refusal))):
                os.copy_file_range(0, 0, 1)
            take_files(tmp_path / "made", {"x": "film"}, tmp_path / "taken")

        with ThreadPoolExecutor(max_workers=1) as thread:  # the filter ends with it
            thread.submit(take).result()
        held.write(b"changed")
    assert (tmp_path / "taken" / "film").read_bytes() == content
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["film"]


@pytest.mark.skipif(not seccomp.is_available(), reason="no filter on system calls here")
@pytest.mark.parametrize("refusal", ["ENOSPC", "EDQUOT", "EIO"])
def test_a_full_or_broken_disk_is_not_blamed_on_the_processor(tmp_path: Path, refusal: str) -> None:
    number = getattr(errno, refusal)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "film").write_bytes(b"much")

    def take() -> None:
        refuse_call(COPY_FILE_RANGE, number)
        refuse_call(WRITE, number)
        take_files(tmp_path / "made", {"x": "film"}, tmp_path / "taken")

    with (
        (tmp_path / "made" / "film").open("r+b"),  # so that it is copied
        ThreadPoolExecutor(max_workers=1) as thread,
        pytest.raises(OSError, match=os.strerror(number)) as caught,
    ):
        thread.submit(take).result()
    assert failure_of(caught.value, "").permanent is False
