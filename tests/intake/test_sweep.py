"""Bytes and outputs that nothing names are removed; what is being added or made is not."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.intake.add import take_in
from mediamill.intake.again import delete_file
from mediamill.intake.analyse import lock_content
from mediamill.intake.sweep import (
    sweep_blobs,
    sweep_intake,
    sweep_intake_forever,
    sweep_orphans,
    sweep_outputs,
    sweep_parts,
)
from mediamill.storage.deletions import hold_deletions
from tests.conftest import wait_until
from tests.failing_database import failing
from tests.intake.played import INVOICE, Ground

pytestmark = pytest.mark.spec("P5")


def files_in(ground: Ground, folder: str = "intake") -> list[Path]:
    return sorted(path for path in (ground.data / folder).rglob("*") if path.is_file())


async def sweep(ground: Ground) -> int:
    return await sweep_intake(ground.database, ground.settings, older_than_seconds=0)


async def test_what_files_have_stays_and_what_nobody_has_goes(ground: Ground) -> None:
    await ground.project()
    kept, gone = await ground.done(), await ground.done(content=b"gone")
    assert await sweep(ground) == 0
    async with ground.database.transaction() as connection:
        await delete_file(connection, gone)
    assert await sweep(ground) == 2, "its bytes and its output"
    left = files_in(ground)
    assert len(left) == 1 + 4
    async with ground.database.transaction() as connection:
        await delete_file(connection, kept)
    await sweep(ground)
    assert files_in(ground) == []


async def test_young_files_and_those_of_others_are_left_alone(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    await ground.run("delete from project_files")
    await ground.run("delete from analyses")
    assert await sweep_blobs(ground.database, ground.data) == 0, "it has just come"
    folder = ground.data / "intake" / "files" / "zz"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    (folder / ("a" * 64)).symlink_to("/etc/passwd")
    assert await sweep(ground) == 1
    assert len(list(folder.iterdir())) == 2


async def test_a_file_that_is_being_added_keeps_its_bytes(ground: Ground) -> None:
    """The same content lies there, old and unnamed: whoever comes first, the new file has its bytes in the end."""
    await ground.project()
    for _ in range(10):
        file = await ground.add()
        async with ground.database.transaction() as connection:
            await delete_file(connection, file["id"])
        for path in files_in(ground, "intake/files"):
            os.utime(path, (0, 0))
        _, file = await asyncio.gather(sweep(ground), ground.add())
        (path,) = files_in(ground, "intake/files")
        assert path.read_bytes() == INVOICE
        async with ground.database.transaction() as connection:
            await delete_file(connection, file["id"])


async def test_a_sweep_waits_for_a_file_whose_transaction_is_open(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    await ground.run("delete from project_files")
    await ground.run("delete from analyses")
    (path,) = files_in(ground, "intake/files")
    async with ground.database.transaction() as connection:
        sha256 = bytes.fromhex(path.name)
        await lock_content(connection, sha256)
        sweeping = asyncio.create_task(sweep_blobs(ground.database, ground.data, older_than_seconds=0))
        waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        await wait_until(lambda: ground.one(waits))
        await connection.execute(
            "insert into analyses (sha256, catalog, extractor, mime_type, bytes) values ($1, $1, 'x', 'x', 1)",
            sha256,
        )
    assert await sweeping == 0
    assert path.exists()


async def test_an_output_that_a_running_job_is_writing_is_left_alone(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    (job,) = await ground.claim()
    ground.draw(job, ("one",))
    assert await sweep_outputs(ground.database, ground.data, older_than_seconds=0) == 0
    assert (await ground.fail(job, "no", permanent=True)) == 2
    assert await sweep_outputs(ground.database, ground.data, older_than_seconds=0) == 1


async def test_the_output_of_an_older_generation_goes_when_the_last_file_has_left_it(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    old = set(files_in(ground, "intake/outputs"))
    await ground.again(file_id, force=True)
    (job,) = await ground.claim()
    await ground.finish(job, pages=("anew",))
    assert await sweep_outputs(ground.database, ground.data, older_than_seconds=0) == 1
    new = set(files_in(ground, "intake/outputs"))
    assert new
    assert not old & new


async def test_parts_of_uploads_that_died_go_and_those_that_live_stay(ground: Ground) -> None:
    await ground.project()
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"some"
        begun.set()
        await go.wait()
        yield b" more"

    given = (ground.database, ground.enqueuer, ground.settings, "invoices", "a.txt", slow())
    adding = asyncio.create_task(take_in(*given))
    await begun.wait()
    dead = ground.data / "intake" / "parts" / "dead.part"
    dead.write_text("half")
    os.utime(dead, (0, 0))
    assert sweep_parts(ground.data, 3600) == 1
    go.set()
    assert (await adding)["bytes"] == 9


async def test_an_analysis_that_lost_its_last_file_to_two_deletions_is_swept(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    await ground.run("delete from project_files")
    assert await sweep(ground) == 2, "the analysis and its bytes"
    assert await ground.one("select count(*) from jobs") == 0


async def test_however_much_there_is_it_goes_batch_by_batch(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.intake.sweep.BATCH", 2)
    await ground.project()
    for number in range(5):
        await ground.done(content=bytes([number]))
    kept = await ground.done()
    await ground.run("delete from project_files where id <> $1", kept)
    assert await sweep_orphans(ground.database) == 0, "they have just been analysed"
    assert await sweep(ground) == 5 * 3, "analyses, bytes and outputs"
    assert len(files_in(ground)) == 1 + 4
    assert await sweep(ground) == 0


async def test_of_parts_only_old_plain_files_go(ground: Ground, tmp_path: Path) -> None:
    assert sweep_parts(ground.data, 3600) == 0, "there is no such folder yet"
    parts = ground.data / "intake" / "parts"
    (parts / "0-folder").mkdir(parents=True)
    outside = tmp_path / "mine.txt"
    outside.write_text("mine")
    (parts / "1-link").symlink_to(outside)
    for name, age in (("2-old", 3700), ("3-young", 3500), ("4-old", 7200)):
        (parts / name).write_text("half")
        os.utime(parts / name, (time.time() - age,) * 2)
    for path in (outside, parts / "0-folder"):
        os.utime(path, (0, 0))
    os.utime(parts / "1-link", (0, 0), follow_symlinks=False)
    assert sweep_parts(ground.data, 3600) == 2
    assert sorted(path.name for path in parts.iterdir()) == ["0-folder", "1-link", "3-young"]


async def test_a_day_is_the_least_that_an_upload_may_take(ground: Ground) -> None:
    parts = ground.data / "intake" / "parts"
    parts.mkdir(parents=True)
    for hours in (23, 25):
        (parts / f"{hours}").write_text("half")
        os.utime(parts / f"{hours}", (time.time() - hours * 3600,) * 2)
    assert await sweep(ground) == 1
    assert [path.name for path in parts.iterdir()] == ["23"]


async def test_while_a_backup_is_made_nothing_is_removed(ground: Ground) -> None:
    await ground.project()
    await ground.done()
    await ground.run("delete from project_files")
    before = files_in(ground)
    with hold_deletions(ground.data):
        assert await sweep(ground) == 1, "the analysis"
        assert files_in(ground) == before
    assert await sweep(ground) == 2


async def test_the_server_sweeps_on_whatever_goes_wrong(ground: Ground) -> None:
    quick = Ground.on(ground.database, ground.data, janitor_seconds=0.01)
    dead = ground.data / "intake" / "parts" / "dead.part"
    dead.parent.mkdir(parents=True)
    dead.write_text("half")
    os.utime(dead, (0, 0))
    sweeping = asyncio.create_task(sweep_intake_forever(failing(ground.database), quick.settings))

    async def is_gone() -> bool:
        return sweeping.done() or not dead.exists()

    try:
        await wait_until(is_gone)
        assert not sweeping.done()
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
