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
from mediamill.staging import staging_folder
from mediamill.staging.sweep import sweep_staging

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
