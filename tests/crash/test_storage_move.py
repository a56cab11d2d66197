"""`mediamill storage move` killed with -9 in the middle, in both directions: the next run goes on and loses nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.storage.bucket import PIECE_BYTES
from tests.conftest import wait_until
from tests.crash.processes import Mill
from tests.gate import gate_to
from tests.storage.s3_server import S3Server, bucket, s3_server
from tests.stories.town import Town

__all__ = ["bucket", "s3_server"]

pytestmark = pytest.mark.spec("E23")
SMALL = 600


# The database has done all that a killed command told it.
NO_COMMAND = """
select not exists (
    select from pg_stat_activity where datname = current_database() and application_name = 'mediamill command')
"""


@pytest.fixture
async def mill(new_url: str, tmp_path: Path, s3_server: S3Server, bucket: str) -> AsyncIterator[Mill]:
    """All objects come through this process: while it is held up, nothing is moved."""
    town = Town.of(tmp_path, new_url, s3_server, bucket)
    async with gate_to(s3_server.url) as gate:
        town.settings["MEDIAMILL_BUCKET_URL"] = gate.url
        yield town.machine("one")
        town.assert_no_traceback()
        town.close()


@pytest.fixture
async def database(new_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(new_url, connections=2, name="mediamill watch")
    yield opened
    await opened.close()


def fill(data: Path) -> dict[str, str]:
    """Many small files and one of several pieces; their hashes."""
    for number in range(SMALL):
        path = data / f"libraries/{number % 10:03}/{number}-1-2/preview.webp"
        path.parent.mkdir(parents=True)
        path.write_bytes(f"preview {number} ".encode() * 50)
    source = data / "videos/1/source"
    source.parent.mkdir(parents=True)
    source.write_bytes(os.urandom(1 << 20) * (2 * PIECE_BYTES // (1 << 20)) + b"end")
    return hashes(data)


def hashes(data: Path) -> dict[str, str]:
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for area in ("libraries", "videos")
        for path in (data / area).rglob("*")
        if path.is_file()
    }


async def test_a_move_that_is_killed_in_the_middle_goes_on_in_both_directions(
    mill: Mill, database: Database
) -> None:
    data = mill.folder / "data"
    before = fill(data)
    code, said = await mill.say("jobs", "list")  # the schema is there from now on
    assert code == 0, said

    async def named() -> int:
        async with database.connection() as connection:
            return int(await connection.fetchval("select count(distinct name) from stored_pieces"))

    async def some_are_named() -> bool:
        return await named() > 100

    moving = mill.start("storage", "move", "bucket")
    await wait_until(some_are_named)
    moving.kill()
    await mill.until(NO_COMMAND)
    done = await named()
    assert 100 < done < len(before), "it was in the middle"
    code, said = await mill.say("storage", "move", "bucket", "--delete", "--yes", "--json")
    assert code == 0, said
    moved = json.loads(said)
    assert (moved["files"], moved["copied_files"]) == (len(before), len(before) - done)
    assert (moved["faults"], moved["deleted_files"], hashes(data)) == ([], len(before), {})

    def here() -> int:
        return sum(1 for _ in data.glob("libraries/*/*/preview.webp"))

    async def some_are_here() -> bool:
        return here() > 100

    moving = mill.start("storage", "move", "folder", "--delete", "--yes")
    await wait_until(some_are_here)
    moving.kill()
    assert 100 < here() < SMALL, "it was in the middle"
    assert await named() == len(before), "nothing is given up before all is here"
    code, said = await mill.say("storage", "move", "folder", "--delete", "--yes", "--json")
    assert code == 0, said
    moved = json.loads(said)
    assert moved["files"] == len(before)
    assert moved["copied_files"] < len(before) - 100
    assert hashes(data) == before
    assert await named() == 0
    assert not list((data / "scratch").glob("move-*")), "nothing half is left"


async def test_it_refuses_while_a_server_or_a_worker_runs(mill: Mill) -> None:
    fill(mill.folder / "data")
    for words in (("up", "--workers", 0), ("worker",)):
        process = await mill.started(*words)
        code, said = await mill.say("storage", "move", "bucket")
        assert code == 1, said
        assert "others work on this database" in said
        assert "fix: stop all servers and workers" in said
        process.kill()
