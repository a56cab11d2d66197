"""While deletions are held, nothing that a row of a moment ago named goes; the sweeps find it later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mediamill.db import file_lock
from mediamill.db.connection import Database
from mediamill.intake.sweep import sweep_blobs, sweep_outputs
from mediamill.libraries.collect import collect_garbage
from mediamill.staging.derivatives import sweep_derivatives
from mediamill.staging.failed import make_room, put_aside
from mediamill.staging.inputs import end_input
from mediamill.staging.kept import sweep_kept
from mediamill.staging.sweep import sweep_failed, sweep_staging
from mediamill.storage.deletions import deletions_wait, hold_deletions
from mediamill.storage.folder import FolderStorage
from mediamill.videos.sweep import sweep_folders
from tests.conftest import wait_until

OLD = time.time() - 10 * 86_400
SWEEPS: dict[str, Callable[[Database, Path], object]] = {
    "pending_media/guid": lambda database, data: sweep_staging(database, data, 60),
    "failed_media/guid": lambda database, data: sweep_failed(database, data, 60),
    "derivatives/007/7-1/text.txt": sweep_derivatives,
    "kept/007/7/a.m4s": sweep_kept,
    "videos/00000000-0000-0000-0000-000000000007/source": sweep_folders,
    "libraries/007/7-7-1/preview.webp": collect_garbage,
    "intake/outputs/007/7-7-1/page.txt": sweep_outputs,
    f"intake/files/{'ab'}/{'ab' * 32}": sweep_blobs,
}


def put(data: Path, name: str) -> Path:
    """A file that nobody names, old enough to be swept."""
    path = data / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    for each in (path, path.parent, path.parent.parent):
        os.utime(each, (OLD, OLD))
    return path


@pytest.mark.parametrize("name", SWEEPS)
async def test_a_sweep_waits_for_a_backup_and_then_sweeps(
    database: Database, tmp_path: Path, name: str
) -> None:
    path = put(tmp_path, name)
    with hold_deletions(tmp_path):
        await SWEEPS[name](database, tmp_path)  # type: ignore[misc]
        assert path.exists()
    await SWEEPS[name](database, tmp_path)  # type: ignore[misc]
    assert not path.exists()


async def test_the_folder_of_an_erased_video_stays_for_a_backup(database: Database, tmp_path: Path) -> None:
    path = put(tmp_path, "videos/x/source")
    with hold_deletions(tmp_path):
        async with database.transaction() as connection:
            await FolderStorage(tmp_path).drop(connection, "videos/x")
        assert path.exists()
    async with database.transaction() as connection:
        await FolderStorage(tmp_path).drop(connection, "videos/x")

    async def gone() -> bool:
        return not path.exists()

    await wait_until(gone)


async def test_the_file_of_a_finished_job_stays_for_a_backup(database: Database, tmp_path: Path) -> None:
    path, payload = put(tmp_path, "pending_media/g"), {"file": {"staged": "g"}}
    with hold_deletions(tmp_path):
        await end_input(database, tmp_path, payload, keep=False)
        assert path.exists()
    await end_input(database, tmp_path, payload, keep=False)
    assert not path.exists()


async def test_files_that_were_put_aside_are_not_pushed_out_while_a_backup_is_made(
    database: Database, tmp_path: Path
) -> None:
    first, second = put(tmp_path, "failed_media/a"), put(tmp_path, "pending_media/b")
    with hold_deletions(tmp_path):
        put_aside(tmp_path, "b")
        await make_room(database, tmp_path, most_bytes=1)
        assert first.exists()
    await make_room(database, tmp_path, most_bytes=1)
    assert (first.exists(), second.exists(), (tmp_path / "failed_media" / "b").exists()) == (
        False,
        False,
        True,
    )


def test_two_that_ask_at_once_do_not_take_each_other_for_a_backup(tmp_path: Path) -> None:
    lock = file_lock.open_lock(tmp_path / "deletions.lock")
    file_lock.share(lock)  # as somebody who asks does for a moment
    assert not deletions_wait(tmp_path)
    file_lock.release(lock)


def test_a_data_folder_that_is_not_there_holds_nothing_up(tmp_path: Path) -> None:
    assert not deletions_wait(tmp_path / "none")
