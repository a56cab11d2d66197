"""A database that is not there: at the start, for a while in the middle, too old, or without room on its disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from mediamill.db.connection import Database, DatabaseTooOldError
from mediamill.db.embedded import EmbeddedServer, stop_immediately
from mediamill.db.migrate import upgrade
from tests.crash.processes import Mill, in_thread

FULL = ("disk of the database is full", "No space left")
# It ends when the disk is full, whoever wanted to write, and starts again.
AWAY = ("the database went away", "the database does not answer")


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Mill]:
    """A database server of this test's own; it is down when the test begins."""
    use = await in_thread(EmbeddedServer(tmp_path / "server").start)
    await upgrade(use.url)
    mill = Mill(tmp_path, use.url)
    await in_thread(use.close)
    yield mill
    mill.close()


@contextlib.asynccontextmanager
async def _server(mill: Mill) -> AsyncIterator[None]:
    use = await in_thread(EmbeddedServer(mill.folder / "server").start)
    try:
        yield
    finally:
        await in_thread(use.close)


@pytest.mark.spec("E8", "E9")
async def test_a_database_that_is_down_at_the_start_and_goes_away_in_the_middle_is_waited_for(
    alone: Mill,
) -> None:
    worker, up = alone.start("worker"), alone.start("up", "--workers", "0")
    for process in (worker, up):
        await process.until_said("waiting for the database")
    async with _server(alone):
        await worker.until_said("is ready, pools: ")
        await up.until_said("is up: ")
        await alone.enqueue("chaos.settled", range(30), seconds=0.3)
        await alone.enqueue("chaos.delivered", range(30, 60), seconds=0.3)
        await alone.until("select count(*) > 3 from chaos_deliveries")
        await in_thread(stop_immediately, alone.folder / "server")
    for _ in range(2):  # away, back, and away again
        assert [process.popen.poll() for process in (worker, up)] == [None, None]
        async with _server(alone):
            await alone.until(
                "select count(*) > 0 from workers where heartbeat_at > pg_postmaster_start_time()"
            )
            await in_thread(stop_immediately, alone.folder / "server")
    async with _server(alone):
        await alone.until_all_once(60)
        alone.assert_no_traceback()
        alone.close()


@contextlib.asynccontextmanager
async def _old_server() -> AsyncIterator[str]:
    """Speaks just enough of the protocol to say that it is PostgreSQL 15."""

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + (len(body) + 4).to_bytes(4, "big") + body

    hello = (
        message(b"R", bytes(4))
        + message(b"S", b"server_version\x0015.4\0")
        + message(b"S", b"client_encoding\0UTF8\0")
        + message(b"K", bytes(8))
        + message(b"Z", b"I")
    )

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                body = await reader.readexactly(size - 4)
                if int.from_bytes(body[:4], "big") == 196_608:  # a start, not a question for encryption
                    break
                writer.write(b"N")
            writer.write(hello)
            await writer.drain()
            await reader.readexactly(5)  # goodbye
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"postgresql://postgres@127.0.0.1:{server.sockets[0].getsockname()[1]}/any"


async def test_a_postgresql_that_is_too_old_is_refused_in_one_sentence(tmp_path: Path) -> None:
    async with _old_server() as url:
        with pytest.raises(DatabaseTooOldError, match=r"PostgreSQL 15.*; mediamill needs 16"):
            await Database.open(url)
        mill = Mill(tmp_path, url)
        for command in ("worker", "up"):
            code, said = await mill.say(command)
            assert code == 1
            assert "the database is PostgreSQL 15" in said
            assert "mediamill needs 16 or newer" in said
            assert "fix: point MEDIAMILL_DATABASE_URL at a newer server" in said
        mill.assert_no_traceback()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room."""
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=260m", "tmpfs", place], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.decode().strip()}")
    yield place
    stop_immediately(place / "data")  # it outlives a mill that is killed
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.spec("E1", "E11")
async def test_a_full_disk_is_a_clear_error_and_nothing_is_lost_when_there_is_room_again(
    small_disk: Path, tmp_path: Path
) -> None:
    mill = Mill(tmp_path, settings={"MEDIAMILL_DATA": str(small_disk / "data")})
    try:
        up = await mill.started("up", "--workers", "1")
        use = await in_thread(EmbeddedServer(small_disk / "data").start)
        mill.url = use.url
        await mill.enqueue("chaos.settled", range(5))
        await mill.until("select count(*) = 5 from chaos_deliveries")
        ballast = _fill(small_disk)
        confirmed = await _add_until_refused(mill, 5)
        big = json.dumps({"text": os.urandom(45_000).hex()})
        mill.url = None  # as whoever knows the data folder only
        while True:
            code, said = await mill.say("jobs", "add", "scripted.inline", big, "--count", 300)
            if any(clue in said for clue in FULL) or not any(sign in said for sign in AWAY):
                break
        mill.url = use.url
        assert code == 1
        assert "error: " in said
        assert any(clue in said for clue in FULL), said
        ballast.unlink()
        await mill.until("select count(*) >= $1 from chaos_deliveries", confirmed, limit_seconds=120)
        code, said = await mill.say("jobs", "add", "scripted.inline", "{}")
        assert code == 0, said
        await mill.until("select not exists (select from jobs)")
        assert await mill.one("select max(times) from chaos_deliveries") == 1
        assert await mill.one("select count(*) from dead_jobs") == 0
        assert up.popen.poll() is None
        mill.assert_no_traceback()
        await in_thread(use.close)
    finally:
        mill.close()


def _fill(disk: Path) -> Path:
    """Take all but a little of the room."""
    ballast = disk / "ballast"
    free = shutil.disk_usage(disk).free
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - (4 << 20))
    return ballast


async def _add_until_refused(mill: Mill, number: int) -> int:
    """Big jobs, until the database has no room; how many were confirmed."""
    while number < 2000:
        try:
            await _add_big(mill, number)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            return number
        number += 1
    raise AssertionError("the disk never became full")


async def _add_big(mill: Mill, number: int) -> None:
    await mill.one(
        "insert into jobs (kind, pool, owner, priority, max_attempts, state, payload) values "
        "('chaos.settled', 'default', 'o', 1, 9, 'queued', jsonb_build_object('number', $1::integer, 'text', "
        "(select string_agg(md5(random()::text), '') from generate_series(1, 6000))))",
        number,
    )
