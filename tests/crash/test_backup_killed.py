"""-9 for a backup and for a restore: what they leave says what it is, and the same command goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.backup.shelf import Shelf
from tests.backup.ground import FILES, empty_url, files_of, fill, hashes
from tests.conftest import as_admin, wait_until
from tests.crash.intake_order import kill_family
from tests.crash.processes import Mill, Process, holding, in_thread, mill

__all__ = ["mill"]

BIG = {"videos/2/source": b"a long film " * 20_000_000}
LOADING = """
select count(*) > 0 from pg_stat_activity
where datname = current_database() and application_name = 'mediamill restore' and wait_event_type = 'Lock'
"""
NO_FUNCTIONS = "lock table pg_catalog.pg_proc in share mode"  # they cannot be made meanwhile


@pytest.fixture
async def other(server_url: str, tmp_path: Path) -> AsyncIterator[Mill]:
    """An empty data folder and an empty database."""
    (tmp_path / "other").mkdir()
    async with empty_url(server_url) as url:
        other = Mill(tmp_path / "other", url)
        yield other
        other.close()


async def stop_when(process: Process, sign: Path, pattern: str) -> None:
    """Stopped at once when a file is there, so that the rest of the test is not a race; then -9."""

    async def there() -> bool:
        assert process.popen.poll() is None, process.said
        return bool(await in_thread(lambda: list(sign.glob(pattern))))

    await wait_until(there)
    process.send(signal.SIGSTOP)


async def test_a_killed_backup_is_none_and_the_next_one_is_whole(mill: Mill, other: Mill) -> None:
    data, backups = mill.folder / "data", mill.folder / "backups"
    fill(data, {**FILES, **BIG})
    await mill.add("scripted.run", 1, do="nothing")
    async with holding(mill, "lock table held_owners"):  # its rows cannot be dumped
        killed = mill.start("backup", backups)
        await stop_when(killed, backups, "unfinished-*/files/videos/1/source")
        assert Shelf(backups).whole() == []
        await kill_family(killed)
    code, said = await mill.say("backup", "verify", backups)
    assert (code, "there is no backup in" in said) == (1, True), said
    code, said = await mill.say("backup", backups, "--json")
    assert code == 0, said
    made = json.loads(said)
    assert made["copied_files"] < made["files"] == len(FILES) + 1
    assert Shelf(backups).unfinished() == []
    code, said = await other.say("restore", backups, "--yes")
    assert code == 0, said
    assert hashes({**FILES, **BIG}).items() <= files_of(other.folder / "data").items()
    mill.assert_no_traceback()


async def test_a_restore_killed_among_its_files_keeps_everything_out_and_goes_on(
    mill: Mill, other: Mill, server_url: str
) -> None:
    fill(mill.folder / "data", {**FILES, **BIG})
    await mill.add("scripted.run", 1, do="nothing")
    assert (await mill.say("backup", mill.folder / "backups"))[0] == 0
    async with holding(other, NO_FUNCTIONS, as_admin(server_url, other.url or "")):
        killed = other.start("restore", mill.folder / "backups", "--yes")
        await stop_when(killed, other.folder / "data", "libraries/*/*/preview.webp")
        await kill_family(killed)
    for command in ("up",), ("worker",), ("jobs", "list"):
        code, said = await other.say(*command)
        assert (code, "holds a restore that was cut off" in said, "mediamill restore" in said) == (
            1,
            True,
            True,
        ), said
    code, said = await other.say("restore", mill.folder / "backups", "--yes")
    assert code == 0, said
    assert hashes({**FILES, **BIG}).items() <= files_of(other.folder / "data").items()
    assert await other.one("select count(*) from jobs") == 1
    other.assert_no_traceback()


async def test_a_restore_killed_while_it_loads_leaves_an_empty_database_and_goes_on(
    mill: Mill, other: Mill, server_url: str
) -> None:
    fill(mill.folder / "data")
    await mill.add("scripted.run", 1, do="nothing")
    assert (await mill.say("backup", mill.folder / "backups"))[0] == 0
    async with holding(other, NO_FUNCTIONS, as_admin(server_url, other.url or "")):
        killed = other.start("restore", mill.folder / "backups", "--yes")
        await other.until(LOADING)
        killed.kill()
    code, said = await other.say("up")
    assert (code, "holds a restore that was cut off" in said) == (1, True), said
    code, said = await other.say("restore", mill.folder / "backups", "--yes")
    assert code == 0, said
    assert await other.one("select count(*) from jobs") == 1
    assert (other.folder / "data" / "restore.json").exists() is False
    other.assert_no_traceback()
