"""Files of failed jobs are kept for another try, within bounds."""

from __future__ import annotations

import os
from pathlib import Path

from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.failed import put_aside


def stage(folder: Path, guid: str, size: int) -> None:
    staging_folder(folder).mkdir(exist_ok=True)
    (staging_folder(folder) / guid).write_bytes(bytes(size))


def kept(folder: Path) -> set[str]:
    return {path.name for path in failed_folder(folder).iterdir()}


def test_a_file_is_put_aside(tmp_path: Path) -> None:
    stage(tmp_path, "a", 10)
    put_aside(tmp_path, "a")
    assert kept(tmp_path) == {"a"}
    assert not any(staging_folder(tmp_path).iterdir())


def test_when_there_is_no_room_the_oldest_go_first(tmp_path: Path) -> None:
    for age, guid in enumerate(("new", "middle", "old")):
        stage(tmp_path, guid, 40)
        put_aside(tmp_path, guid)
        os.utime(failed_folder(tmp_path) / guid, (1_000_000 - age, 1_000_000 - age))
    stage(tmp_path, "newest", 40)
    put_aside(tmp_path, "newest", most_bytes=100)
    assert kept(tmp_path) == {"new", "newest"}


def test_a_file_that_is_larger_than_all_the_room_is_deleted(tmp_path: Path) -> None:
    stage(tmp_path, "a", 200)
    put_aside(tmp_path, "a", most_bytes=100)
    assert kept(tmp_path) == set()


def test_a_file_that_is_not_there_is_nothing_to_put_aside(tmp_path: Path) -> None:
    put_aside(tmp_path, "a")
    assert kept(tmp_path) == set()
