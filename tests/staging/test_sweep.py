"""Staged files that no job names."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.model import NewJob
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging import sweep as sweep_file
from mediamill.staging.awaited import await_file, forget_awaited
from mediamill.staging.give_up import delete_unused
from mediamill.staging.inputs import end_input
from mediamill.staging.sweep import sweep_failed, sweep_staging, sweep_staging_forever
from mediamill.storage.choose import storage_at
from mediamill.storage.deletions import hold_deletions
from tests.conftest import wait_until
from tests.outages import let_time_pass

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
async def test_files_are_no_older_for_the_time_in_which_no_server_ran(
    database: Database, tmp_path: Path
) -> None:
    """A server ran for an hour, not for five, and then for three and a half."""
    await let_time_pass(database, 1, served=True)
    await let_time_pass(database, 5, served=False)
    await let_time_pass(database, 3.5, served=True)
    waits, orphan = _stage(tmp_path, "waits", 8.9 * 3600), _stage(tmp_path, "orphan", 9.1 * 3600)

    async def is_swept() -> bool:
        return not orphan.exists()

    task = asyncio.create_task(
        sweep_staging_forever(
            database, tmp_path, keep_seconds=FOUR_HOURS, failed_keep_seconds=FOUR_HOURS, every_seconds=0.01
        )
    )
    await wait_until(is_swept)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert waits.exists()


@pytest.mark.spec("E34", "C42")
async def test_a_file_that_a_bridge_may_still_hand_over_is_no_orphan_until_its_message_came(
    database: Database, tmp_path: Path
) -> None:
    path = _stage(tmp_path, "awaited", 100 * 3600)
    async with database.connection() as connection:
        await await_file(connection, "awaited")
        assert await sweep_staging(database, tmp_path, FOUR_HOURS) == 0
        await forget_awaited(connection)
        assert path.exists()
        await connection.execute("update awaited_files set awaited_at = now() - interval '32 days'")
        await forget_awaited(connection)
    assert await sweep_staging(database, tmp_path, FOUR_HOURS) == 1


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


async def test_the_janitor_sweeps_every_folder_and_outlives_a_database_that_refuses(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def run(sql: str) -> None:
        async with database.connection() as connection:
            await connection.execute(sql)

    async def failed() -> bool:
        return "the sweep of staged files failed" in caplog.text

    await run("insert into served values ('', now() - interval '1 hour', now())")
    await run("alter table dead_jobs rename to hidden")
    places = [tmp_path / name for name in ("derivatives/001/1-1", "kept/001/1")]
    for place in places:
        place.mkdir(parents=True)
        os.utime(place, (0, 0))
    staged = _stage(tmp_path, "old", 90)
    young = _stage(tmp_path, "young", 30)
    aside = _stage(tmp_path, "aside", 40)
    failed_folder(tmp_path).mkdir()
    aside = aside.rename(failed_folder(tmp_path) / "aside")
    task = asyncio.create_task(
        sweep_staging_forever(database, tmp_path, keep_seconds=60, failed_keep_seconds=35, every_seconds=0.01)
    )
    await wait_until(failed)
    assert staged.exists()
    await run("alter table hidden rename to dead_jobs")

    async def swept() -> bool:
        return not any(path.exists() for path in (staged, aside, *places))

    await wait_until(swept)
    assert not task.done()
    assert young.exists()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_many_files_are_deleted_batch_by_batch_and_none_while_deletions_wait(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_file, "BATCH", 2)
    paths = [_stage(tmp_path, f"g{number}", 90) for number in range(5)]
    with hold_deletions(tmp_path):
        assert await sweep_staging(database, tmp_path, 60) == 0
    assert await sweep_staging(database, tmp_path, 60) == 5
    assert not any(path.exists() for path in paths)
    folder = tmp_path / "pending_media" / "a folder"
    folder.mkdir()
    there = _stage(tmp_path, "there", 0)
    gone = tmp_path / "pending_media" / "gone"
    assert await delete_unused(database, storage_at(tmp_path), [gone, folder, there]) == 1
    assert (folder.exists(), there.exists()) == (True, False)
