"""Restoring: into empty places only, all or nothing, from backups that strangers may have made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mediamill.backup.copying import Progress
from mediamill.backup.database import ClientTooOldError, find_program
from mediamill.backup.marker import RestoreUnfinishedError, check_whole
from mediamill.backup.model import BackupDamagedError, Manifest, check_path, read_manifest, write_manifest
from mediamill.backup.restore import (
    NoRoomError,
    NotEmptyError,
    OlderServerError,
    RestoreAtWorkError,
    restore_backup,
)
from mediamill.backup.shelf import find_backup
from mediamill.db import file_lock
from mediamill.db.migrate import SchemaNewerError, downgrade, newest_revision, schema_revision, upgrade
from tests.backup.ground import FILES, Ground, files_of, fill, hashes, names_in, restore


def altered(folder: Path, **changes: Any) -> None:
    """The manifest as somebody else would have written it."""
    write_manifest(folder, read_manifest(folder).model_copy(update=changes))


def relisted(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The list of files as somebody else would have written it, with a manifest that fits."""
    path = folder / "files.jsonl"
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    content, manifest = path.read_bytes(), read_manifest(folder)
    assert manifest.files is not None
    digest = hashlib.sha256(content).hexdigest()
    part = manifest.files.model_copy(update={"bytes": len(content), "sha256": digest})
    altered(folder, files=part)


async def test_everything_is_there_again(ground: Ground, empty: str, tmp_path: Path) -> None:
    made = await ground.back_up()
    other = tmp_path / "other"
    await restore(find_backup(ground.shelf), empty, other)
    assert hashes(FILES).items() <= files_of(other).items()
    assert not [name for name in files_of(other) if name.startswith(("logs", "scratch", "tools", "inputs"))]
    assert await names_in(empty) == ["row 1"]
    assert (other / "bridge_secret").stat().st_mtime == (ground.data / "bridge_secret").stat().st_mtime
    assert (other / "bridge_secret").stat().st_mode & 0o777 == 0o600
    check_whole(other)
    assert made.folder == find_backup(ground.shelf)


async def test_a_database_that_holds_something_is_refused(ground: Ground, tmp_path: Path) -> None:
    made = await ground.back_up()
    with pytest.raises(NotEmptyError) as refused:
        await restore(made.folder, ground.url, tmp_path / "other")
    assert "MEDIAMILL_DATABASE_URL" in (refused.value.fix or "")
    assert await names_in(ground.url) == ["row 1"]
    check_whole(tmp_path / "other")


async def test_a_data_folder_that_holds_something_is_refused(ground: Ground, empty: str) -> None:
    made = await ground.back_up()
    before = files_of(ground.data)
    with pytest.raises(NotEmptyError, match="holds pending_media/a-guid"):
        await restore(made.folder, empty, ground.data)
    assert {**files_of(ground.data), "restore.lock": ""} == {**before, "restore.lock": ""}


async def test_a_backup_of_the_database_alone_goes_beside_files_that_were_brought_otherwise(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made = await ground.back_up(files=False)
    fill(tmp_path / "other")
    await restore(made.folder, empty, tmp_path / "other")
    assert await names_in(empty) == ["row 1"]


async def test_a_restore_that_is_cut_off_says_so_and_goes_on(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"

    def die(what: str, far: Progress) -> None:
        if what == "copying files" and far.copied_files == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await restore_backup(nullcontext(empty), other, made.folder, show=die)
    with pytest.raises(RestoreUnfinishedError) as refused:
        check_whole(other)
    assert str(made.folder) in (refused.value.fix or "")
    copied: list[int] = []
    await restore_backup(
        nullcontext(empty), other, made.folder, show=lambda _what, far: copied.append(far.copied_files)
    )
    assert 0 < max(copied) < len(FILES)
    check_whole(other)
    assert await names_in(empty) == ["row 1"]


async def test_a_restore_that_is_cut_off_after_its_rows_goes_on_with_them(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"

    async def die(_connection: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await restore_backup(nullcontext(empty), other, made.folder, afterwards=[die])
    with pytest.raises(RestoreUnfinishedError):
        check_whole(other)
    await restore(made.folder, empty, other)
    assert await names_in(empty) == ["row 1"]


async def test_a_database_that_a_server_made_meanwhile_is_not_taken_for_the_restored_one(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"

    def die(what: str, _far: Progress) -> None:
        if what == "loading the database":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await restore_backup(nullcontext(empty), other, made.folder, show=die)
    await upgrade(empty)
    with pytest.raises(NotEmptyError):
        await restore(made.folder, empty, other)


async def test_half_of_another_backup_is_not_mixed_with_this_one(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    first, second = await ground.back_up(), await ground.back_up()

    async def die(_connection: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await restore_backup(nullcontext(empty), tmp_path / "other", first.folder, afterwards=[die])
    with pytest.raises(NotEmptyError, match="half of another backup"):
        await restore(second.folder, empty, tmp_path / "other")


async def test_two_restores_into_one_folder_are_not_done_at_once(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"
    other.mkdir()
    with file_lock.exclusive(other / "restore.lock"), pytest.raises(RestoreAtWorkError):
        await restore(made.folder, empty, other)


async def test_an_older_schema_is_brought_up_to_date(ground: Ground, empty: str, tmp_path: Path) -> None:
    await downgrade(ground.url, "0003")
    made = await ground.back_up()
    assert made.manifest.schema_revision == "0003"
    await restore(made.folder, empty, tmp_path / "other")
    assert await schema_revision(empty) == newest_revision()
    assert await names_in(empty) == ["row 1"]


async def test_a_newer_schema_is_refused_with_the_words_to_update(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made = await ground.back_up()
    altered(made.folder, schema_revision="9999")
    with pytest.raises(SchemaNewerError, match="the backup has schema 9999") as refused:
        await restore(made.folder, empty, tmp_path / "other")
    assert "install the newer mediamill" in (refused.value.fix or "")
    assert not (tmp_path / "other").exists()


async def test_an_older_server_is_refused(ground: Ground, empty: str, tmp_path: Path) -> None:
    made = await ground.back_up()
    altered(made.folder, postgres=99)
    with pytest.raises(OlderServerError, match="PostgreSQL 99"):
        await restore(made.folder, empty, tmp_path / "other")


def test_a_server_newer_than_its_programs_is_a_clear_error() -> None:
    with pytest.raises(
        ClientTooOldError, match="the server is PostgreSQL 99, and the newest pg_dump"
    ) as refused:
        find_program("pg_dump", 99)
    assert "PATH" in (refused.value.fix or "")


def test_a_newer_program_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pg_dump"
    program.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 99.1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_program("pg_dump", 99) == program
    assert find_program("pg_dump", 16) != program


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "videos/../../x", "videos//x", "a/.", "", "postgres/pg_hba.conf", "restore.json"],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(BackupDamagedError, match="names a path that it may not"):
        check_path(path)


async def test_a_backup_that_names_a_path_outside_changes_nothing(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"
    relisted(made.folder, lambda line: {**line, "path": line["path"].replace("bridge_secret", "../evil")})
    with pytest.raises(BackupDamagedError, match="names a path that it may not"):
        await restore(made.folder, empty, other)
    assert not (tmp_path / "evil").exists()
    assert {path for path in files_of(other) if not path.startswith("restore.")} == set()


async def test_a_backup_that_does_not_fit_on_the_disk_is_refused_before_anything_is_written(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"
    more = 10**15
    relisted(
        made.folder,
        lambda line: {**line, "bytes": line["bytes"] + more * (line["path"] == "bridge_secret")},
    )
    files = read_manifest(made.folder).files
    assert files is not None
    altered(made.folder, files=files.model_copy(update={"total_bytes": files.total_bytes + more}))
    with pytest.raises(NoRoomError, match=r"only .* bytes are free"):
        await restore(made.folder, empty, other)
    check_whole(other)
    assert {path for path in files_of(other) if not path.startswith("restore.")} == set()


@pytest.mark.parametrize("time", [2**63, -(2**80)])
async def test_a_time_that_no_file_can_have_is_refused_before_anything_is_written(
    ground: Ground, empty: str, tmp_path: Path, time: int
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"
    relisted(made.folder, lambda line: {**line, "mtime_ns": time})
    with pytest.raises(BackupDamagedError, match=r"line 1 of files\.jsonl"):
        await restore(made.folder, empty, other)
    check_whole(other)


async def test_a_link_in_a_backup_is_not_followed(ground: Ground, empty: str, tmp_path: Path) -> None:
    made, elsewhere = await ground.back_up(), tmp_path / "elsewhere"
    (made.folder / "files" / "videos").rename(elsewhere)
    (made.folder / "files" / "videos").symlink_to(elsewhere)
    with pytest.raises(BackupDamagedError, match="a link stands in its way"):
        await restore(made.folder, empty, tmp_path / "other")
    (made.folder / "files" / "videos").unlink()
    elsewhere.rename(made.folder / "files" / "videos")
    file = made.folder / "files" / "whatsapp" / "bot" / "auth" / "creds.json"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    with pytest.raises(BackupDamagedError, match=r"creds\.json"):
        await restore(made.folder, empty, tmp_path / "other")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(BackupDamagedError, match=r"creds\.json cannot be read: it is no plain file"):
        await restore(made.folder, empty, tmp_path / "other")


@pytest.mark.parametrize("name", ["database.dump", "files.jsonl", "files/videos/1/source"])
async def test_a_damaged_backup_is_not_taken_for_the_data(
    ground: Ground, empty: str, tmp_path: Path, name: str
) -> None:
    made, other = await ground.back_up(), tmp_path / "other"
    path = made.folder / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(BackupDamagedError):
        await restore(made.folder, empty, other)
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("select to_regclass('jobs')") is None
    await connection.close()
    if name.startswith("files/"):
        with pytest.raises(RestoreUnfinishedError):
            check_whole(other)


async def test_a_dump_that_cannot_be_loaded_leaves_an_empty_database(
    ground: Ground, empty: str, tmp_path: Path
) -> None:
    made = await ground.back_up()
    dump = made.folder / "database.dump"
    dump.write_bytes(dump.read_bytes()[:-3_000])
    manifest: Manifest = read_manifest(made.folder)
    content = dump.read_bytes()
    part = manifest.database.model_copy(
        update={"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    )
    altered(made.folder, database=part)
    with pytest.raises(Exception, match="pg_restore failed"):
        await restore(made.folder, empty, tmp_path / "other")
    assert await schema_revision(empty) is None
