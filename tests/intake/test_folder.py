"""What is in a watched folder: every plain file by its path, and what could not be looked at, in words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mediamill.intake import folder as folders
from mediamill.intake.folder import Seen, open_below, read_folder
from mediamill.intake.receive import UnreadableFileError
from tests.open_files import open_files

pytestmark = pytest.mark.spec("P1")


def paths(top: Path, avoid: str = "/nowhere") -> list[bytes]:
    listing = read_folder(str(top), avoid)
    assert listing.trouble == []
    return [seen.rel_path for seen in listing.files]


def fill(top: Path, *names: str) -> None:
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)


def test_each_file_is_seen_with_its_time_and_size_in_the_order_of_names(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.txt", "a/b/c.txt")
    os.utime(tmp_path / "b.txt", ns=(0, 5_000_000_001))
    assert paths(tmp_path) == [b"a/b/c.txt", b"a/z.txt", b"b.txt"]
    assert read_folder(str(tmp_path), "/nowhere").files[-1] == Seen(b"b.txt", 5_000_000_001, 5)


def test_what_is_hidden_or_unfinished_or_no_file_hides_nothing_behind_it(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "0.part",
        "1.partial",
        "2.CRDOWNLOAD",
        "3.tmp",
        "4.swp",
        "5~",
        ".h",
        "~lock",
        ".git/x",
        "z.txt",
    )
    os.mkfifo(tmp_path / "6")
    (tmp_path / "7").symlink_to(tmp_path / "z.txt")
    (tmp_path / "8").symlink_to(tmp_path)
    assert paths(tmp_path) == [b"z.txt"]


def test_a_file_that_goes_while_its_folder_is_read_hides_nothing_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "a.txt", "b.txt")
    listed = os.listdir

    def list_late(folder: int) -> list[str]:
        return ["0-gone.txt", *listed(folder)]

    monkeypatch.setattr("mediamill.intake.folder.os.listdir", list_late)
    assert paths(tmp_path) == [b"a.txt", b"b.txt"]


def test_our_own_folder_is_left_out_wherever_it_is(tmp_path: Path) -> None:
    fill(tmp_path, "data/secret.txt", "data2/a.txt", "z.txt")
    assert paths(tmp_path, str(tmp_path / "data")) == [b"data2/a.txt", b"z.txt"]
    for avoid in (tmp_path / "data", tmp_path):
        with pytest.raises(PermissionError, match="mediamill's own"):
            read_folder(str(tmp_path / "data"), str(avoid))
    with pytest.raises(FileNotFoundError):
        read_folder(str(tmp_path / "nothing"), "/nowhere")


def test_a_folder_that_cannot_be_opened_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "a/in.txt", "b/in.txt", "c.txt")
    opened = os.open

    def locked(path: str | bytes, flags: int, *, dir_fd: int | None = None) -> int:
        if path == b"a":
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr("mediamill.intake.folder.os.open", locked)
    listing = read_folder(str(tmp_path), "/nowhere")
    assert listing.trouble == ["a: Permission denied"]
    assert [seen.rel_path for seen in listing.files] == [b"b/in.txt", b"c.txt"]


def test_a_folder_that_breaks_while_it_is_read_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "a/in.txt", "b.txt")
    listed = os.listdir

    def broken(folder: int) -> list[str]:
        names = listed(folder)
        if names == ["in.txt"]:
            raise OSError(5, "Input/output error")
        return names

    monkeypatch.setattr("mediamill.intake.folder.os.listdir", broken)
    listing = read_folder(str(tmp_path), "/nowhere")
    assert listing.trouble == ["a: Input/output error"]
    assert [seen.rel_path for seen in listing.files] == [b"b.txt"]


def test_reading_leaves_no_folder_open(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/c.txt")
    read_folder(str(tmp_path), "/nowhere")
    for path in (b"a/b/none.txt", b"a/none/c.txt", b"a/b"):
        with pytest.raises(UnreadableFileError):
            open_below(str(tmp_path), path)
    os.close(open_below(str(tmp_path), b"a/b/c.txt"))
    assert open_files(tmp_path) == []


def test_a_file_is_opened_by_its_path_and_a_fault_says_why(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/c.txt")
    descriptor = open_below(str(tmp_path), b"a/b/c.txt")
    assert os.read(descriptor, 100) == b"a/b/c.txt"
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)
    for path, why in ((b"a/b", "not a regular file"), (b"x/y", "No such file"), (b"a/x", "No such file")):
        with pytest.raises(UnreadableFileError, match=why) as refused:
            open_below(str(tmp_path), path)
        assert refused.value.code == "unreadable_file"


def test_bounds_of_depth_number_and_length_are_told_and_what_fits_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MOST_DEPTH", 3)
    monkeypatch.setattr(folders, "MOST_FILES", 2)
    monkeypatch.setattr(folders, "PATH_BYTES", 7)
    fill(tmp_path, "a/b/c/d.txt", "a/b/cde", "long.txt", "x", "y", "z")
    listing = read_folder(str(tmp_path), "/nowhere")
    assert [seen.rel_path for seen in listing.files] == [b"a/b/cde", b"x"]
    assert listing.trouble == [
        "folders are looked into 3 deep, not deeper",
        "a path is longer than 7 bytes",
        *["more than 2 files are there; the others are not looked at"] * 2,
    ]
