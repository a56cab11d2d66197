"""Real processes of mediamill: killed as a machine kills them, and looked at by SQL."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from mediamill.client.wire import LocalPass
from mediamill.local_key import link_purpose, local_key, sign_pass
from mediamill.testing import chaos_kinds
from tests.conftest import wait_until
from tests.fork_server import Forked, fork_server


class Process:
    """One command; what it says goes to a file.

    It is forked from a process that has imported the code, unless it runs inside another command, by another Python, or
    `cold`: as a user starts it.
    """

    def __init__(
        self,
        words: tuple[object, ...],
        environment: dict[str, str],
        said: Path,
        inside: tuple[str, ...] = (),
        python: str = sys.executable,
        *,
        cold: bool = False,
        module: str = "mediamill",
    ) -> None:
        self._said = said
        self.popen: subprocess.Popen[bytes] | Forked
        given = [str(word) for word in words]
        with said.open("wb") as file:
            if cold or inside or python != sys.executable:
                self.popen = subprocess.Popen(
                    [*inside, python, "-m", module, *given],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            else:
                self.popen = fork_server().start(module, given, environment, file)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def said(self) -> str:
        return self._said.read_text()

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """-9."""
        self.popen.kill()
        self.popen.wait(60)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    async def until_said(self, text: str) -> None:
        async def heard() -> bool:
            gone = self.popen.poll() is not None  # before the look: it may say it and go in between
            said = text in self.said
            assert said or not gone, self.said
            return said

        await wait_until(heard)

    async def until_gone(self) -> int:
        async def gone() -> bool:
            return self.popen.poll() is not None

        await wait_until(gone)
        return int(self.popen.wait())


@dataclass
class Mill:
    """A data folder, a database, and the processes that a test starts on them."""

    folder: Path
    url: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    inside: tuple[str, ...] = ()  # the command that every process is run by
    python: str = sys.executable
    cold: bool = False  # every process is started as a user starts it

    @property
    def environment(self) -> dict[str, str]:
        ours = {key: value for key, value in os.environ.items() if not key.startswith("MEDIAMILL_")}
        given = {"MEDIAMILL_DATABASE_URL": self.url} if self.url else {}
        return {
            **ours,
            "NO_COLOR": "1",
            "MEDIAMILL_DATA": str(self.folder / "data"),
            "MEDIAMILL_PORT": "0",
            "MEDIAMILL_HEARTBEAT_SECONDS": "1",
            **given,
            **self.settings,
        }

    @property
    def owner(self) -> LocalPass:
        """What requests of the servers' own user carry."""
        return LocalPass(self.folder / "data")

    def link(self, url: str) -> str:
        """Where a browser is logged in."""
        purpose = link_purpose(int(url.rpartition(":")[2]))
        return f"{url}/open?link={sign_pass(local_key(self.folder / 'data'), purpose)}"

    def start(self, *words: object) -> Process:
        said = self.folder / f"said-{len(self.processes)}.txt"
        process = Process(words, self.environment, said, self.inside, self.python, cold=self.cold)
        self.processes.append(process)
        return process

    async def started(self, *words: object) -> Process:
        """Started, and ready for work."""
        process = self.start(*words)
        await process.until_said("is up: " if words[0] == "up" else "is ready, pools: ")
        return process

    async def say(self, *words: object) -> tuple[int, str]:
        """A command that ends by itself: its exit code and what it said."""
        process = self.start(*words)
        return await process.until_gone(), process.said

    async def add(self, kind: str, count: int = 1, **payload: Any) -> None:
        code, said = await self.say("jobs", "add", kind, json.dumps(payload), "--count", count, "--json")
        assert code == 0, said

    async def one(self, sql: str, *args: Any) -> Any:
        assert self.url is not None
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetchval(sql, *args)
        finally:
            await connection.close()

    async def until(self, sql: str, *args: Any, limit_seconds: float = 120) -> None:
        """Ask again and again on one connection; a new one only where the server went away."""
        assert self.url is not None
        connection: asyncpg.Connection | None = None

        async def true() -> bool:
            nonlocal connection
            try:
                if connection is None or connection.is_closed():
                    connection = await asyncpg.connect(self.url)
                return bool(await connection.fetchval(sql, *args))
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                if connection is not None:
                    connection.terminate()
                return False

        try:
            await wait_until(true, limit_seconds)
        finally:
            if connection is not None:
                connection.terminate()

    async def enqueue(self, kind: str, numbers: range, seconds: float = 0) -> None:
        """Jobs of the chaos kinds: each records its end under its number."""
        await self.one(chaos_kinds.TABLE)
        await self.one(
            "insert into jobs (kind, pool, owner, priority, max_attempts, state, payload) "
            "select $1, 'default', 'o', 1, 9, 'queued', jsonb_build_object('number', n, 'seconds', $4::float8) "
            "from generate_series($2::integer, $3) n",
            kind,
            numbers.start,
            numbers.stop - 1,
            seconds,
        )
        await self.one("select pg_notify('mediamill_jobs', 'default')")

    async def hurry(self) -> None:
        """Jobs that are run again after this take no time, however long those that run now take."""
        await self.one("update jobs set payload = payload || '{\"seconds\": 0}'")

    async def until_all_once(self, count: int, limit_seconds: float = 120) -> None:
        """Every number was recorded, none twice, and nothing is left over."""
        await self.until(
            "select (select count(*) from chaos_deliveries) = $1 and not exists (select from jobs)",
            count,
            limit_seconds=limit_seconds,
        )
        assert await self.one("select max(times) from chaos_deliveries") == 1
        assert await self.one("select count(*) from dead_jobs") == 0

    def assert_no_traceback(self) -> None:
        for process in self.processes:
            assert "Traceback" not in process.said

    def close(self) -> None:
        for process in self.processes:
            process.popen.kill()
            process.popen.wait()


@pytest.fixture
def mill(new_url: str, tmp_path: Path) -> Iterator[Mill]:
    """On a fresh database of the tests' own server."""
    mill = Mill(tmp_path, new_url)
    yield mill
    mill.close()


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@asynccontextmanager
async def holding(mill: Mill, statement: str, url: str | None = None) -> AsyncIterator[None]:
    """Somebody holds what this statement locks: whoever comes there waits. `url`: of somebody with more rights."""
    assert mill.url is not None
    connection = await asyncpg.connect(url or mill.url)
    try:
        await connection.execute("begin")
        await connection.execute(statement)
        yield
    finally:
        await connection.close()


def command_of(process: psutil.Process) -> list[str]:
    """Its words; none if it ended while it was looked at."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


async def until_dead(*pids: int) -> None:
    async def dead() -> bool:
        return not any(is_alive(pid) for pid in pids)

    await wait_until(dead)


async def in_thread(function: Any, *args: Any) -> Any:
    return await asyncio.to_thread(function, *args)


async def until_files(folder: Path, count: int) -> None:
    """A worker puts a file away when its job has ended: whoever waits may hear of that before."""

    async def there() -> bool:
        return len(await in_thread(lambda: list(folder.glob("*")))) == count

    await wait_until(there)


async def told(mill: Mill, *words: object) -> Any:
    """What a command says, as data."""
    code, said = await mill.say(*words, "--json")
    assert code == 0, said
    return json.loads(said[min(place for place in (said.find("{"), said.find("[")) if place >= 0) :])
