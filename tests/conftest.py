"""One embedded server for the run (one for each worker process), a template database, and a clone of it per test."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import itertools
import os
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx
import psutil
import pytest

from bench.superuser import superuser_url
from mediamill.access import passwords
from mediamill.db import file_lock
from mediamill.db.connection import Database
from mediamill.db.embedded import EmbeddedServer, stop_immediately
from mediamill.db.migrate import upgrade
from mediamill.db.roles import OWN_SCHEMA
from mediamill.engine.flight_log import uninstall

if TYPE_CHECKING:
    from argon2 import PasswordHasher

PREFIX = "mediamill-tests-"
MEMORY = "/dev/shm"
ROOM_BYTES = 4 * 1024**3
MUCH_BYTES = 100 * 1024**2
# What is lost only if the machine itself goes down may be lost here; databases are made quicker.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "file_copy_method": "clone",
    "max_wal_size": "512MB",
    "shared_buffers": "64MB",  # looked through whenever a database is made or dropped
    "io_method": "sync",
}

# Of a password that nobody has, as `passwords.NOBODY`, but cheap.
CHEAP_NOBODY = "$argon2id$v=19$m=8,t=1,p=1$rS0mw8o1b9mXRLnw8HGSpQ$eRhyVnBwL95VoJChKWOkzNOtfCD3XovSuCDDEnJAUBw"

_numbers = itertools.count(1)
_TEMPLATE = f"mediamill_template_{os.getpid()}"
_EMPTY = f"mediamill_empty_{os.getpid()}"
_admins: dict[str, str] = {}


@pytest.fixture(scope="module", autouse=True)
def memory_goes_back() -> Iterator[None]:
    """What encoders and large requests had is free afterwards, but the process would keep it: gigabytes by the end."""
    process = psutil.Process()
    before = process.memory_info().rss
    yield
    if process.memory_info().rss > before + MUCH_BYTES:
        gc.collect()
        with contextlib.suppress(AttributeError):  # only the C library of GNU has it
            ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True)
def no_flight_log_is_left() -> Iterator[None]:
    """`up` and `worker`, run inside a test, log to a stream that ends with it, and narrow the umask of the process."""
    umask = os.umask(0o022)
    os.umask(umask)
    yield
    os.umask(umask)
    uninstall()


@pytest.fixture(scope="session", autouse=True)
def passwords_cost_little() -> Iterator[None]:
    """A hash takes a tenth of a second and 64 MiB, on purpose, and tests need hundreds. What they start pays for it."""

    @cache
    def hasher() -> PasswordHasher:
        from argon2 import PasswordHasher

        return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", hasher)
        patch.setattr(passwords, "NOBODY", CHEAP_NOBODY)
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_are_read_once() -> Iterator[None]:
    """Each client of httpx reads all certificates of its bundle, which takes 20 ms; tests make thousands of them."""
    read = cache(lambda _file, _folder: httpx.create_ssl_context())

    def create(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert is not None or not trust_env:
            return httpx.create_ssl_context(verify, cert, trust_env)
        return read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", create)
        yield


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """A PostgreSQL of this test run's own (or the one of MEDIAMILL_TEST_DATABASE_URL)."""
    given = os.environ.get("MEDIAMILL_TEST_DATABASE_URL")
    if given:
        yield given
        return
    folder = make_server_folder()
    use = EmbeddedServer(folder).start()
    admin = _admins[use.url] = superuser_url(use.url, folder)
    settings = [f"alter system set {name} = '{value}'" for name, value in SETTINGS.items()]
    asyncio.run(run_sql(admin, *settings, f"create database {_EMPTY}"))
    asyncio.run(run_sql(database_url(admin, _EMPTY), OWN_SCHEMA))
    use.close()
    use = EmbeddedServer(folder).start()
    try:
        yield use.url
    finally:
        use.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server_folder() -> Iterator[Path]:
    """For a server of another user: folders of pytest are closed to others whenever a run begins beside this one."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=_place(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _place() -> Path:
    """In memory if there is room."""
    memory = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return Path(MEMORY if memory else tempfile.gettempdir())


def make_server_folder() -> Path:
    """In memory if there is room: thousands of databases are made in it, each of hundreds of files."""
    place = _place()
    for leftover in place.glob(f"{PREFIX}*/postgres.use"):
        with contextlib.suppress(OSError):
            remove_unless_used(leftover.parent)
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))


def remove_unless_used(folder: Path) -> None:
    """The server of a run that was killed goes with its files; one that is just being made has not its lock yet."""
    if time.time() - folder.stat().st_mtime < 600:
        return
    share = file_lock.open_lock(folder / "postgres.use")
    try:
        if file_lock.try_exclusive(share):
            stop_immediately(folder)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        file_lock.close_lock(share)


def database_url(server_url: str, name: str) -> str:
    """Another database of the same server."""
    head, _, query = server_url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


def admin_url(server_url: str) -> str:
    """For making and dropping databases: the superuser of our own server. All else is done by the product's role."""
    return _admins.get(server_url) or database_url(server_url, "postgres")


def as_admin(server_url: str, url: str) -> str:
    """The same database, for what only a superuser can arrange."""
    return database_url(admin_url(server_url), url.partition("?")[0].rpartition("/")[2])


def create_database(server_url: str, name: str) -> str:
    """SQL for an empty database in which the product's role may do what it may do in its own."""
    return f"create database {name} template {_EMPTY if server_url in _admins else 'template1'}"


async def run_sql(url: str, *statements: str) -> None:
    """Statements on a connection of their own, each its own transaction."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def template_url(server_url: str) -> Iterator[str]:
    """The migrated database that tests clone."""
    admin, url = admin_url(server_url), database_url(server_url, _TEMPLATE)
    asyncio.run(run_sql(admin, create_database(server_url, _TEMPLATE)))
    asyncio.run(upgrade(url))
    yield url
    asyncio.run(run_sql(admin, drop_database(_TEMPLATE)))


def clone_template(name: str) -> str:
    """SQL for a database of that name, as the template is; cloning its files is much quicker than logging them."""
    return f"create database {name} template {_TEMPLATE} strategy file_copy"


def drop_database(name: str) -> str:
    """SQL to drop it, whoever is still connected."""
    return f"drop database if exists {name} with (force)"


class Administrator:
    """One connection that makes and drops the databases of a run; logging in for each took as long as making it.

    It lives in a thread with an event loop of its own, because that of a test ends with the test.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._one_at_a_time = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None
        threading.Thread(target=self._loop.run_forever, name="administrator", daemon=True).start()

    async def run(self, statement: str) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._run(statement), self._loop))

    async def _run(self, statement: str) -> None:
        async with self._one_at_a_time:
            if self._connection is None or self._connection.is_closed():
                self._connection = await asyncpg.connect(self._url)
            await self._connection.execute(statement)


_administrator = cache(Administrator)


@asynccontextmanager
async def fresh_url(server_url: str) -> AsyncIterator[str]:
    """The address of a fresh, migrated database, which goes with the block; the template must be there."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    administrator = _administrator(admin_url(server_url))
    await administrator.run(clone_template(name))
    yield database_url(server_url, name)
    await administrator.run(drop_database(name))


@asynccontextmanager
async def open_database(url: str) -> AsyncIterator[Database]:
    """For a block; the server of the run is known."""
    opened = await Database.open_unchecked(url, connections=20)
    yield opened
    await opened.close()


@pytest.fixture
async def new_url(server_url: str, template_url: str) -> AsyncIterator[str]:
    """The address of a fresh, migrated database."""
    async with fresh_url(server_url) as url:
        yield url


@pytest.fixture
async def database(new_url: str) -> AsyncIterator[Database]:
    """A fresh, migrated database."""
    async with open_database(new_url) as opened:
        yield opened


async def wait_until(condition: Callable[[], Awaitable[object]], limit_seconds: float = 120) -> None:
    """Wait for a state, not for a time. Asked for less often after a while: each look costs a request or a query."""
    began = time.monotonic()
    async with asyncio.timeout(limit_seconds):
        while not await condition():  # noqa: ASYNC110 - the state is in the database
            await asyncio.sleep(min(0.1, max(0.02, (time.monotonic() - began) / 20)))
