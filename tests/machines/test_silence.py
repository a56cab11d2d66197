"""A machine that vanishes without a word, while somebody waits for its answer: it is noticed, and not waited for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from bench.machines.network import Network
from bench.machines.postgres_server import PostgresServer
from tests.conftest import server_folder, wait_until
from tests.machines.sites import two_machines

__all__ = ["two_machines"]

# Each waits for an answer that never comes, says so, and says whether it gave up.
ASK_DATABASE = """
import asyncio, sys
from mediamill.db.connection import LOST, Database, connect
async def ask():
    database = await Database.open(sys.argv[1])
    alone = await connect(sys.argv[1])
    async with database.connection() as pooled:
        waiting = [asyncio.create_task(each.fetchval("select pg_sleep(3600)")) for each in (pooled, alone)]
        print("asked", flush=True)
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            print("noticed" if isinstance(each, LOST) else repr(each), flush=True)
asyncio.run(ask())
"""
ASK_SERVER = """
import asyncio, sys
from mediamill.worker.away import AwayError
from mediamill.worker.server_link import ServerLink
async def ask():
    link = ServerLink(sys.argv[1], "key")
    async def say():
        await asyncio.sleep(2)
        print("asked", flush=True)
    asyncio.create_task(say())
    try:
        await link.ask("POST", "/api/worker/claim", timeout=3600)
    except AwayError:
        print("noticed", flush=True)
asyncio.run(ask())
"""
MUTE_SERVER = """
import socket, sys, time
door = socket.create_server((sys.argv[1], 8420))
print("listens", flush=True)
peer, _ = door.accept()
time.sleep(3600)
"""


class Script:
    """A program on a machine; what it says goes to a file."""

    def __init__(self, inside: tuple[str, ...], code: str, word: str, said: Path) -> None:
        self._said = said
        with said.open("wb") as file:
            self.popen = subprocess.Popen(
                [*inside, sys.executable, "-c", code, word], stdout=file, stderr=file
            )

    async def until(self, *words: str) -> None:
        async def heard() -> bool:
            gone = self.popen.poll() is not None  # before the look: it may say it and go in between
            said = self._said.read_text().split()
            assert said == list(words) or not gone, said
            return said == list(words)

        await wait_until(heard)

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait()


@pytest.fixture
def postgres(two_machines: Network) -> Iterator[PostgresServer]:
    home = two_machines.machines["home"]
    with server_folder() as folder:
        server = PostgresServer(folder, address=home.address, inside=home.inside, settings={"fsync": "off"})
        server.make()
        yield server
        server.kill()


@pytest.mark.spec("E9", "E23")
async def test_a_database_that_loses_its_power_is_not_waited_for(
    two_machines: Network, postgres: PostgresServer, tmp_path: Path
) -> None:
    asker = Script(two_machines.machines["alpha"].inside, ASK_DATABASE, postgres.url, tmp_path / "said")
    try:
        await asker.until("asked")
        await wait_until(lambda: _sleeping(postgres))
        for way in two_machines.switch.around("home"):
            way.is_cut = True
        await asker.until("asked", "noticed", "noticed")
    finally:
        asker.close()


async def _sleeping(postgres: PostgresServer) -> bool:
    connection = await asyncpg.connect(postgres.socket_url)
    try:
        asked = "select count(*) from pg_stat_activity where query = 'select pg_sleep(3600)'"
        return bool(await connection.fetchval(asked) == 2)
    finally:
        await connection.close()


@pytest.mark.spec("E23")
async def test_a_server_that_is_cut_off_is_not_waited_for_by_a_worker_over_http(
    two_machines: Network, tmp_path: Path
) -> None:
    home = two_machines.machines["home"]
    server = Script(home.inside, MUTE_SERVER, home.address, tmp_path / "server")
    asker = None
    try:
        await server.until("listens")
        inside = two_machines.machines["alpha"].inside
        asker = Script(inside, ASK_SERVER, f"http://{home.address}:8420", tmp_path / "said")
        await asker.until("asked")
        for way in two_machines.switch.around("home"):
            way.is_cut = True
        await asker.until("asked", "noticed")
    finally:
        for script in (server, asker):
            if script is not None:
                script.close()
