"""`mediamill backup` and `mediamill restore`, as they are called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from mediamill.db.connection import Database
from tests.backup.ground import FILES, empty_url, files_of, fill, hashes
from tests.cli.conftest import Mediamill
from tests.conftest import run_sql

DATA = Path(__file__).parents[1] / "db" / "data"


@pytest.fixture
async def empty(server_url: str) -> AsyncIterator[str]:
    async with empty_url(server_url) as url:
        yield url


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    return tmp_path / "backups"


async def test_out_and_in_again(
    mediamill: Mediamill, backups: Path, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mediamill("bots", "create", "anna")
    made = (await mediamill("backup", backups, "--json")).json
    assert (made["files"], made["copied_files"], made["left_out"]) == (len(FILES), len(FILES), [])
    said = await mediamill("backup", "create", backups)
    assert (said.code, "6 files (2.4 MB); copied 0 B" in said.out) == (0, True), said
    said = await mediamill("backup", "verify", backups)
    assert (said.code, "all of it is as it was" in said.out) == (0, True)
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", empty)
    monkeypatch.setenv("MEDIAMILL_DATA", str(tmp_path / "other"))
    asked = await mediamill("restore", backups)
    assert (asked.code, "add --yes" in asked.err) == (1, True)
    said = await mediamill("restore", made["backup"], "--yes")
    assert (said.code, "restored: the database" in said.out) == (0, True), said
    assert [bot["id"] for bot in (await mediamill("bots", "list", "--json")).json] == ["anna"]
    assert hashes(FILES).items() <= files_of(tmp_path / "other").items()


@pytest.mark.parametrize(("words", "state"), [((), "failed"), (("--answer",), "due")])
async def test_answers_that_were_due_are_sent_only_if_that_is_said(
    mediamill: Mediamill,
    database: Database,
    backups: Path,
    empty: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    state: str,
) -> None:
    due = "update replies set state = 'due' where state = 'failed'"
    await run_sql(database.url, (DATA / "0003.sql").read_text(), due)
    assert (await mediamill("backup", backups, "--no-files")).code == 0
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", empty)
    monkeypatch.setenv("MEDIAMILL_DATA", str(tmp_path / "other"))
    assert (await mediamill("restore", backups, "--yes", *words)).code == 0
    connection = await asyncpg.connect(empty)
    states = {row[0] for row in await connection.fetch("select state from replies where state <> 'sent'")}
    await connection.close()
    assert states == {state}


async def test_a_damaged_backup_ends_with_1_and_says_what_is_wrong(
    mediamill: Mediamill, backups: Path
) -> None:
    made = (await mediamill("backup", "--no-files", backups, "--json")).json
    assert made["files"] is None
    dump = Path(made["backup"]) / "database.dump"
    dump.write_bytes(dump.read_bytes()[:-1])
    said = await mediamill("backup", "verify", backups)
    assert (said.code, "database.dump is not what was backed up" in said.out) == (1, True)
    said = await mediamill("backup", "verify", backups, "--json")
    assert (said.code, '"database.dump is not what was backed up"' in said.out) == (1, True)


async def test_a_restore_over_what_is_there_is_refused_with_the_way_out(
    mediamill: Mediamill, backups: Path
) -> None:
    await mediamill("backup", backups)
    said = await mediamill("restore", backups, "--yes")
    assert (said.code, "the data folder is not empty" in said.err, "MEDIAMILL_DATA" in said.err) == (
        1,
        True,
        True,
    )


async def test_a_folder_without_a_backup_is_a_clear_error(mediamill: Mediamill, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        said = await mediamill("restore", folder, "--yes")
        assert (said.code, "`mediamill backup` has written" in said.err) == (1, True)


async def test_nothing_starts_on_half_of_a_restore(mediamill: Mediamill, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "restore.json").write_text('{"backup": "/b", "seal": "x"}')
    for command in ("jobs", "list"), ("up",), ("backup", tmp_path / "backups"):
        said = await mediamill(*command)
        assert (said.code, "mediamill restore /b" in said.err) == (1, True), said
    said = await mediamill("check")
    assert (said.code, "mediamill restore /b" in said.out) == (1, True), said
