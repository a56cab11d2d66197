"""A real Redis for a test: started, killed with -9, stopped in its tracks, and started again empty."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from tests.conftest import wait_until

FOUND = Path(__file__).parents[2] / ".tools" / "redis"


class RedisServer:
    """On a socket in a folder of its own; it keeps nothing on disk, so that a restart is as bad as it can be."""

    def __init__(self, password: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.url_with(self._password)

    def url_with(self, password: str) -> str:
        return f"unix://{self.folder / 'socket'}" + (f"?password={password}" if password else "")

    @property
    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True, protocol=2)

    def start(self) -> None:
        words = ["--port", "0", "--unixsocket", self.folder / "socket", "--save", "", "--appendonly", "no"]
        if self._password:
            words += ["--requirepass", self._password]
        with (self.folder / "said.txt").open("ab") as said:
            command = [os.environ.get("REDIS_SERVER") or FOUND.read_text().strip(), *map(str, words)]
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=said, stderr=said)

    async def started(self) -> None:
        self.start()
        await wait_until(self.answers)

    async def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def kill(self) -> None:
        """-9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        """It takes connections and never answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
async def redis_server() -> AsyncIterator[RedisServer]:
    server = RedisServer()
    await server.started()
    yield server
    server.close()
