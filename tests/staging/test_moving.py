"""What a move between data folder and bucket works on, and what is told of it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from uuid import uuid4

import pytest

from mediamill.staging import Target, moving
from mediamill.staging.moving import (
    AREAS,
    Found,
    Moved,
    check_name,
    cut_unchecked,
    first_error,
    in_batches_of,
    is_same,
    next_batch,
    walk_stored,
)
from mediamill.storage.contract import Piece

UPLOAD = str(uuid4())


def put(folder: Path, name: str, data: bytes = b"x") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def piece(data: bytes, first: int = 0) -> Piece:
    return Piece(first, len(data), "key", hashlib.sha256(data).digest())


def walked(folder: Path) -> tuple[list[str], list[str]]:
    left_out: list[str] = []
    return [found.name for found in walk_stored(folder, left_out)], left_out


def test_every_area_is_walked_and_nothing_else(tmp_path: Path) -> None:
    names = [f"{area}/a/b" for area in AREAS if area != "uploads"] + [f"uploads/{UPLOAD}"]
    for name in (*names, "scratch/a", "cache/b", "logs/c", "intake/parts/d"):
        put(tmp_path, name)
    found, left_out = walked(tmp_path)
    assert (sorted(found), left_out) == (sorted(names), [])
    assert set(AREAS) == {
        *("pending_media", "failed_media", "uploads", "videos", "libraries", "intake/files"),
        *("intake/outputs", "derivatives", "kept"),
    }


def test_what_is_unfinished_is_not_taken_and_what_is_no_plain_file_is_named(tmp_path: Path) -> None:
    for name in (
        "kept/001/1/.part-1",
        "pending_media/a.part",
        "uploads/notes.txt",
        f"uploads/{UPLOAD.upper()}x",
    ):
        put(tmp_path, name)
    put(tmp_path, f"uploads/{uuid4()}", b"")
    put(tmp_path, "kept/001/1/a.part")
    put(tmp_path, "videos/1/a\nb")
    (tmp_path / "videos/1/link").symlink_to(tmp_path / "kept")
    (tmp_path / "libraries").symlink_to(tmp_path / "kept")
    found, left_out = walked(tmp_path)
    assert found == ["kept/001/1/a.part"], "only what is staged ends so while it is written"
    assert sorted(left_out) == ["libraries", "videos/1/a\nb", "videos/1/link"]


def test_a_file_with_several_names_is_known_by_its_inode(tmp_path: Path) -> None:
    one = put(tmp_path, "videos/1/a", b"film")
    os.link(one, tmp_path / "videos/1/b")
    alone = put(tmp_path, "videos/1/c", b"")
    facts = one.stat()
    assert list(walk_stored(tmp_path, [])) == [
        Found("videos/1/a", one, 4, (facts.st_dev, facts.st_ino)),
        Found("videos/1/b", tmp_path / "videos/1/b", 4, (facts.st_dev, facts.st_ino)),
        Found("videos/1/c", alone, 0, None),
    ]


def test_files_come_a_hundred_or_a_quarter_of_a_gigabyte_at_a_time(tmp_path: Path) -> None:
    def batches(*sizes: int) -> list[int]:
        return [len(batch) for batch in in_batches_of(Found("a", tmp_path, size) for size in sizes)]

    assert batches() == []
    assert batches(*[1] * 250) == [100, 100, 50]
    most = 256 * 1024**2
    assert batches(most, 1, most - 1, 1) == [1, 2, 1]
    assert batches(most - 1, 1) == [2]
    left = in_batches_of(iter([Found("a", tmp_path, 1)]))
    assert [len(next_batch(left)), next_batch(left)] == [1, []]


def test_a_file_is_the_same_only_to_the_last_byte(tmp_path: Path) -> None:
    path = put(tmp_path, "a", b"12345678")
    assert is_same(path, [piece(b"1234"), piece(b"5678", 4)])
    assert not is_same(path, [piece(b"1234"), piece(b"5670", 4)])
    assert not is_same(path, [piece(b"1234")])
    assert not is_same(path, [])
    assert not is_same(tmp_path / "nowhere", [piece(b"1")])
    (tmp_path / "link").symlink_to(path)
    assert not is_same(tmp_path / "link", [piece(b"12345678")])


@pytest.mark.parametrize("name", ["", "a", "/a", "a/", "a//b", "a/./b", "a/../b", "../b", "a/b\0"])
def test_a_name_that_leads_elsewhere_is_a_fault(name: str) -> None:
    assert check_name(name) == f"{name!r} cannot be the name of a file"
    assert check_name("a/b.c/..d") is None


def test_what_came_of_a_move_is_told_with_twenty_faults_at_most() -> None:
    shown: list[tuple[str, int]] = []
    moved = Moved(Target.BUCKET, show=lambda what, so_far: shown.append((what, so_far.files)))
    moved.add("copying", 10, copied=True)
    moved.add("copying", 5, copied=False)
    moved.faults += [f"fault {n}" for n in range(22)]
    moved.left_out += [f"name {n}" for n in range(22)]
    assert moved.as_dict() == {
        "to": "bucket",
        "files": 2,
        "bytes": 15,
        "copied_files": 1,
        "copied_bytes": 10,
        "deleted_files": 0,
        "faults": [f"fault {n}" for n in range(20)],
        "left_out": [f"name {n}" for n in range(20)],
    }
    assert shown == [("copying", 1), ("copying", 2)]
    quiet = Moved(Target.FOLDER)
    quiet.add("copying", 1, copied=True)
    assert (quiet.to, quiet.faults, quiet.left_out) == ("folder", [], [])


def test_of_several_errors_the_first_is_told() -> None:
    with pytest.raises(ValueError, match="first"), first_error():
        raise BaseExceptionGroup("two", [ValueError("first"), KeyError("second")])
    with first_error():
        pass


def test_an_upload_whose_last_chunk_was_not_checked_is_cut_before_it_is_moved(tmp_path: Path) -> None:
    part = put(tmp_path, f"uploads/{UPLOAD}", b"checkedand not")
    note = put(tmp_path, f"uploads/{UPLOAD}.unchecked", b"7")
    other = put(tmp_path, "uploads/odd.unchecked", b"7")
    cut_unchecked(tmp_path)
    assert (part.read_bytes(), note.exists(), other.exists()) == (b"checked", False, True)
    assert moving._is_upload(UPLOAD)
    assert not moving._is_upload(UPLOAD.upper().replace("-", ""))
