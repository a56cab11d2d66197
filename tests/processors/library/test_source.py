"""What is wrong with the source of a job: the file itself, or all that is around it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import GiveUpError, NotNowError
from mediamill.media.errors import DamagedMediaError
from mediamill.processors.library.source import SourceAwayError, UnreadableFileError, open_file
from mediamill.staging.inputs import RootAwayError, find_inside

pytestmark = pytest.mark.spec("L2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "photos" / "a.jpg"
    path.parent.mkdir()
    path.write_bytes(b"\xff\xd8\xff\xe0 as if")
    return path


def failing(monkeypatch: pytest.MonkeyPatch, verb: str, number: int) -> None:
    """The system says this of every file from now on."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, verb, fail)


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.EHOSTDOWN])
def test_a_share_that_is_away_is_nobody_s_fault(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with monkeypatch.context() as away:
        failing(away, "open", number)
        with pytest.raises(SourceAwayError, match="does not answer") as told, open_file(file):
            pass
    assert isinstance(told.value, NotNowError)


def test_an_error_of_the_disk_is_the_file_s_own_as_long_as_its_folder_answers(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        failing(broken, "open", errno.EIO)
        with pytest.raises(UnreadableFileError), open_file(file):
            pass
        failing(broken, "scandir", errno.EIO)
        with pytest.raises(SourceAwayError), open_file(file):
            pass


def test_a_share_that_goes_away_while_it_is_read_is_not_taken_for_a_damaged_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(away: pytest.MonkeyPatch | None) -> None:
        with open_file(file):
            if away is not None:
                failing(away, "fstat", errno.ESTALE)
            raise DamagedMediaError("the file ends too early")

    with monkeypatch.context() as away, pytest.raises(SourceAwayError):
        decode(away)
    with pytest.raises(DamagedMediaError):
        decode(None)


def test_a_folder_in_which_nothing_is_mounted_is_away_and_a_file_that_was_deleted_is_gone(file: Path) -> None:
    assert find_inside(str(file.parent), "a.jpg") == file
    (file.parent / "b.jpg").write_bytes(b"x")
    file.unlink()
    path = find_inside(str(file.parent), "a.jpg")
    with pytest.raises(GiveUpError), open_file(path):
        pass
    (file.parent / "b.jpg").unlink()
    with pytest.raises(RootAwayError, match=RootAwayError.TEXT):
        find_inside(str(file.parent), "a.jpg")
    file.parent.rmdir()
    with pytest.raises(RootAwayError):
        find_inside(str(file.parent), "a.jpg")


def test_a_root_that_has_gone_stale_is_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as away:
        failing(away, "stat", errno.ESTALE)
        with pytest.raises(RootAwayError, match=os.strerror(errno.ESTALE)):
            find_inside(str(file.parent), "a.jpg")
