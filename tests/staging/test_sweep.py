"""Staged files that no job names."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.model import NewJob
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.inputs import end_input
from mediamill.staging.sweep import sweep_failed, sweep_staging

FOUR_HOURS = 4 * 3600


def _stage(data: Path, name: str, age_seconds: float) -> Path:
    path = staging_folder(data) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"media")
    then = time.time() - age_seconds
    os.utime(path, (then, then))
    return path


@pytest.mark.spec("E34")
async def test_only_old_files_that_no_job_names_are_deleted(database: Database, tmp_path: Path) -> None:
    orphan = _stage(tmp_path, "orphan", FOUR_HOURS + 60)
    named = _stage(tmp_path, "named", FOUR_HOURS + 60)
    young = _stage(tmp_path, "young", FOUR_HOURS - 60)
    async with database.transaction() as connection:
        await Enqueuer(Kinds([JobKind("test.media")])).enqueue_job(
            connection, NewJob("test.media", subject_id="named")
        )
    assert await sweep_staging(database, tmp_path, FOUR_HOURS) == 1
    assert not orphan.exists()
    assert named.exists()
    assert young.exists()


@pytest.mark.spec("E34")
async def test_links_and_folders_are_left_alone(database: Database, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("not ours")
    link = staging_folder(tmp_path) / "link"
    _stage(tmp_path, "x", FOUR_HOURS + 60)
    link.symlink_to(outside)
    (staging_folder(tmp_path) / "folder").mkdir()
    assert await sweep_staging(database, tmp_path, 0.0) == 1
    assert outside.exists()
    assert link.is_symlink()


async def test_without_a_staging_folder_there_is_nothing_to_do(database: Database, tmp_path: Path) -> None:
    assert await sweep_staging(database, tmp_path, 0.0) == 0


async def test_files_of_failed_jobs_are_kept_for_a_while_and_while_they_are_tried_again(
    database: Database, tmp_path: Path
) -> None:
    def put_aside(name: str, age_seconds: float) -> Path:
        path = _stage(tmp_path, name, age_seconds)
        failed_folder(tmp_path).mkdir(exist_ok=True)
        return path.rename(failed_folder(tmp_path) / name)

    old, tried, young = put_aside("old", 90), put_aside("tried", 90), put_aside("young", 30)
    async with database.transaction() as connection:
        await Enqueuer(Kinds([JobKind("test.media")])).enqueue_job(
            connection, NewJob("test.media", subject_id="tried")
        )
    assert await sweep_failed(database, tmp_path, 60) == 1
    assert [path.exists() for path in (old, tried, young)] == [False, True, True]


async def test_a_file_that_is_put_aside_is_kept_from_then_on(database: Database, tmp_path: Path) -> None:
    staged = _stage(tmp_path, "g-1", 90_000)
    await end_input(database, tmp_path, {"file": {"staged": "g-1"}}, keep=True)
    aside = failed_folder(tmp_path) / "g-1"
    assert not staged.exists()
    assert time.time() - aside.stat().st_mtime < 60
