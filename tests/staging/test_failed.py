"""Files of failed jobs are kept for another try, within bounds."""

from __future__ import annotations

import os
from pathlib import Path

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.model import NewJob
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.failed import make_room, put_aside


def stage(folder: Path, guid: str, size: int) -> None:
    staging_folder(folder).mkdir(exist_ok=True)
    (staging_folder(folder) / guid).write_bytes(bytes(size))


def put_three_aside(folder: Path) -> None:
    """Of 40 bytes each."""
    for age, guid in enumerate(("new", "middle", "old")):
        stage(folder, guid, 40)
        put_aside(folder, guid)
        os.utime(failed_folder(folder) / guid, (1_000_000 - age, 1_000_000 - age))


def kept(folder: Path) -> set[str]:
    return {path.name for path in failed_folder(folder).iterdir()}


def test_a_file_is_put_aside(tmp_path: Path) -> None:
    stage(tmp_path, "a", 10)
    put_aside(tmp_path, "a")
    assert kept(tmp_path) == {"a"}
    assert not any(staging_folder(tmp_path).iterdir())


async def test_when_there_is_no_room_the_oldest_go_first(database: Database, tmp_path: Path) -> None:
    put_three_aside(tmp_path)
    stage(tmp_path, "newest", 40)
    put_aside(tmp_path, "newest")
    await make_room(database, tmp_path, most_bytes=100)
    assert kept(tmp_path) == {"new", "newest"}


async def test_a_file_that_is_tried_again_is_not_pushed_out(database: Database, tmp_path: Path) -> None:
    put_three_aside(tmp_path)
    async with database.transaction() as connection:
        await Enqueuer(Kinds([JobKind("test.media")])).enqueue_job(
            connection, NewJob("test.media", subject_id="old")
        )
    await make_room(database, tmp_path, most_bytes=50)
    assert kept(tmp_path) == {"new", "old"}


async def test_a_name_that_is_not_utf_8_goes_as_any_other(database: Database, tmp_path: Path) -> None:
    put_three_aside(tmp_path)
    (failed_folder(tmp_path) / os.fsdecode(b"\xff")).write_bytes(b"x")
    await make_room(database, tmp_path, most_bytes=0)
    assert kept(tmp_path) == set()


async def test_a_file_that_is_larger_than_all_the_room_is_deleted(database: Database, tmp_path: Path) -> None:
    stage(tmp_path, "a", 200)
    put_aside(tmp_path, "a")
    await make_room(database, tmp_path, most_bytes=100)
    assert kept(tmp_path) == set()


async def test_a_file_that_is_not_there_is_nothing_to_put_aside(database: Database, tmp_path: Path) -> None:
    put_aside(tmp_path, "a")
    await make_room(database, tmp_path)
    assert kept(tmp_path) == set()
