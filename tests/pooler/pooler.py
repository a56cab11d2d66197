"""A real PgBouncer in front of a real PostgreSQL 16, the oldest that mediamill works with."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.machines.postgres_server import NAME, PORT, PostgresServer
from mediamill.db.root_user import open_way
from tests.conftest import server_folder, wait_until

TOOLS = Path(__file__).parents[2] / ".tools"
SIZE = 4  # sessions of PostgreSQL for everybody who comes through the pooler
OURS = "jit, tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count, tcp_user_timeout"


class Pooler:
    """On a socket in a folder of its own."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self.folder, self._server = folder, server
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        server.account.own(folder)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/{NAME}?host={self.folder}&port={PORT}"

    async def start(self, mode: str = "transaction", ignored: str = "") -> None:
        """`ignored`: settings of sessions that it takes without a word, and drops."""
        lines = [
            "[databases]",
            f"* = host={self._server.folder / 'run'} port={PORT} user=postgres",
            "[pgbouncer]",
            f"unix_socket_dir = {self.folder}",
            f"listen_port = {PORT}",
            "auth_type = any",
            f"pool_mode = {mode}",
            f"default_pool_size = {SIZE}",
            f"ignore_startup_parameters = {ignored or 'extra_float_digits'}",
            "server_login_retry = 1",
        ]
        (self.folder / "pooler.ini").write_text("\n".join(lines) + "\n")
        program = os.environ.get("PGBOUNCER") or (TOOLS / "pgbouncer").read_text().strip()
        with (self.folder / "said.txt").open("ab") as said:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it is quick
                [program, str(self.folder / "pooler.ini")],
                stdout=said,
                stderr=said,
                **self._server.account.process_options(),
            )
        await wait_until(self._listens)

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(self.folder / f".s.PGSQL.{PORT}")
        except OSError:
            return False
        writer.close()
        return True

    def kill(self) -> None:
        """-9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            (self.folder / f".s.PGSQL.{PORT}").unlink(missing_ok=True)
            self._process = None


@pytest.fixture(scope="module")
def postgres16() -> Iterator[PostgresServer]:
    """One for all tests of a file."""
    programs = os.environ.get("POSTGRES16") or (TOOLS / "postgres16").read_text().strip()
    with server_folder() as folder:
        server = PostgresServer(folder, Path(programs), settings={"fsync": "off", "jit": "off"})
        server.make()
        yield server
        server.kill()


@pytest.fixture
def pooler(postgres16: PostgresServer) -> Iterator[Pooler]:
    """Not started yet."""
    with server_folder() as folder:
        pooler = Pooler(folder / "pooler", postgres16)
        open_way([pooler.folder], postgres16.account)
        yield pooler
        pooler.kill()
