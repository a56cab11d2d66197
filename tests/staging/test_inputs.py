"""Which file a payload names, and every way in which it can name none."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.inputs import (
    BadFileReferenceError,
    RootAwayError,
    StoredAwayError,
    check_file_name,
    find_input,
    find_inside,
    stored_names,
)


def put(path: Path, data: bytes = b"media") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def found(data: Path, file: Any) -> Path | None:
    return find_input(data, {"file": file})


def test_a_file_is_named_in_one_of_these_ways(tmp_path: Path) -> None:
    library = put(tmp_path / "photos" / "2026" / "a.jpg").parents[1]
    raw = os.fsencode(tmp_path) + b"/\xff.jpg"
    assert find_input(tmp_path, {}) is None
    assert found(tmp_path, {"staged": "A-1_b"}) == staging_folder(tmp_path) / "A-1_b"
    assert found(tmp_path, {"staged": "a" * 128}) == staging_folder(tmp_path) / ("a" * 128)
    assert found(tmp_path, {"data": "videos/1/source"}) == tmp_path / "videos/1/source"
    stored = put(tmp_path / "kept/001/1/a.mp4")
    assert found(tmp_path, {"stored": "kept/001/1/a.mp4"}) == stored
    assert found(tmp_path, {"root": str(library), "inside": "2026/a.jpg"}) == library / "2026" / "a.jpg"
    assert found(tmp_path, {"path": "/a/b c.jpg"}) == Path("/a/b c.jpg")
    assert found(tmp_path, {"path_base64": base64.b64encode(raw).decode()}) == Path(os.fsdecode(raw))


@pytest.mark.parametrize(
    "file",
    [
        "a",
        7,
        {},
        {"staged": ""},
        {"staged": "../a"},
        {"staged": "-a"},
        {"staged": "a" * 129},
        {"staged": 7},
        {"data": "a"},
        {"data": "../a"},
        {"data": "a/../b"},
        {"data": "a/.b"},
        {"data": "/a/b"},
        {"data": "a/b/c/d/e/f/g"},
        {"stored": "../a"},
        {"path": "a/b"},
        {"path": "/a\0b"},
        {"path_base64": "no base64!"},
        {"path_base64": base64.b64encode(b"a/b").decode()},
        {"path_base64": base64.b64encode(b"/a\0b").decode()},
        {"root": "a", "inside": "b"},
        {"root": "/a\0", "inside": "b"},
        {"root": "/tmp", "inside": "../b"},
        {"root": "/tmp", "inside": "a//b"},
        {"root": "/tmp", "inside": "./b"},
        {"root": "/tmp", "inside": ""},
        {"root": "/tmp", "inside": "\ud800"},
    ],
    ids=str,
)
def test_what_names_no_file_is_refused(tmp_path: Path, file: Any) -> None:
    with pytest.raises(BadFileReferenceError):
        found(tmp_path, file)


def test_a_staged_file_that_was_put_aside_is_found_there_unless_it_came_again(tmp_path: Path) -> None:
    aside = put(failed_folder(tmp_path) / "g")
    assert found(tmp_path, {"staged": "g"}) == aside
    staged = put(staging_folder(tmp_path) / "g")
    assert found(tmp_path, {"staged": "g"}) == staged


def test_a_stored_file_that_cannot_be_read_may_be_there_later(tmp_path: Path) -> None:
    with pytest.raises(StoredAwayError, match="cannot be read: No such file") as away:
        found(tmp_path, {"stored": "kept/001/1/a.mp4"})
    assert away.value.code == "stored_file_away"


def test_no_link_leads_out_of_a_library(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret")
    library = put(tmp_path / "photos" / "a.jpg").parent
    (library / "link.jpg").symlink_to(secret)
    (library / "folder").symlink_to(tmp_path)
    for inside in ("link.jpg", "folder/secret"):
        with pytest.raises(BadFileReferenceError, match="a link stands in the way"):
            find_inside(str(library), inside)
    by_link = tmp_path / "by link"
    by_link.symlink_to(library)
    assert find_inside(str(by_link), "a.jpg") == library / "a.jpg", "the library itself may be behind one"


def test_a_library_that_is_not_mounted_is_waited_for_and_a_file_that_is_gone_is_not(tmp_path: Path) -> None:
    library = tmp_path / "photos"
    with pytest.raises(RootAwayError, match=f"folder is not there: {library}$") as away:
        find_inside(str(library), "a.jpg")
    assert (away.value.code, away.value.fix) == (
        "library_away",
        "mount it again; its files wait until then",
    )
    library.mkdir()
    with pytest.raises(RootAwayError):
        find_inside(str(library), "a.jpg")
    put(library / "b.jpg")
    assert find_inside(str(library), "a.jpg") == library / "a.jpg", "whoever opens it will miss it"
    library.joinpath("b.jpg").rename(tmp_path / "b")
    library.rmdir()
    put(library)
    with pytest.raises(RootAwayError):
        find_inside(str(library), "a.jpg")


def test_what_is_stored_is_known_by_these_names() -> None:
    assert stored_names({"file": {"data": "videos/1"}}) == ("videos/1",)
    assert stored_names({"file": {"stored": "kept/001/1/a"}}) == ("kept/001/1/a",)
    assert stored_names({"file": {"staged": "g"}}) == ("pending_media/g", "failed_media/g")
    for elsewhere in ({}, {"file": {"path": "/a"}}, {"file": {"staged": "../g"}}, {"file": {"data": "../a"}}):
        assert stored_names(elsewhere) == ()
    assert check_file_name("a-1_b.m4s") == "a-1_b.m4s"
    for wrong in ("", ".a", "a/b", "A", "a" * 65, 7, None):
        with pytest.raises(BadFileReferenceError):
            check_file_name(wrong)
