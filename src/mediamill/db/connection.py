"""The pool of connections, transactions, and the one place that says what a connection is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mediamill.errors import UnavailableError

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    RawConnection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:
    Connection = RawConnection = Pool = Any

log = logging.getLogger(__name__)

OLDEST_VERSION = 16

# A peer that vanished without a word (a machine cut off) is noticed within about ten seconds, so that its
# session, and with it the sign that its worker lives, does not outlast it.
SESSION_SETTINGS = {
    "jit": "off",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "9000",
}

# What a connection does when the server is gone, restarts, or refuses for the moment (its disk is full).
LOST = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # of a connection that was told its end while nobody used it
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
)


_after_commit: dict[int, list[Callable[[], None]]] = {}  # by connection, while its transaction lasts


class DatabaseTooOldError(UnavailableError):
    """The database server is too old."""

    code = "database_too_old"


class DatabaseDownError(UnavailableError):
    """The database does not answer."""

    code = "database_down"


class Database:
    """A pool on one PostgreSQL database."""

    def __init__(self, url: str, pool: Pool) -> None:
        self.url = url
        self.pool = pool

    @classmethod
    async def open(
        cls, url: str, *, connections: int = 8, name: str = "mediamill", wait_seconds: float = 10
    ) -> Database:
        """Connect; wait for a server that is down, and say so; refuse one that is too old."""
        first = await _wait_for(lambda: connect(url, name=name), wait_seconds)
        try:
            version = first.get_server_version()
            if version.major < OLDEST_VERSION:
                raise DatabaseTooOldError(
                    f"the database is PostgreSQL {version.major}; mediamill needs {OLDEST_VERSION} or newer",
                    fix="point MEDIAMILL_DATABASE_URL at a newer server, or unset it to use the embedded one",
                )
        finally:
            await first.close()
        pool = await asyncpg.create_pool(
            url,
            min_size=0,
            max_size=connections,
            server_settings={**SESSION_SETTINGS, "application_name": name},
            max_inactive_connection_lifetime=300,
            reset=_leave_as_is,
            command_timeout=None,
        )
        return cls(url, pool)

    async def close(self) -> None:
        """Give all connections back; do not wait for a server that is gone."""
        try:
            async with asyncio.timeout(5):
                await self.pool.close()
        except (*LOST,):
            self.pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for single statements, each its own transaction."""
        async with self.pool.acquire() as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """One transaction: all of it or nothing."""
        async with self.pool.acquire() as connection:
            actions = _after_commit[id(connection)] = []
            try:
                async with connection.transaction():
                    yield connection
            finally:
                del _after_commit[id(connection)]
        for action in actions:
            action()


def after_commit(connection: Connection, action: Callable[[], None]) -> None:
    """Do it when the transaction of this connection has come to a good end, and never if it is undone.

    Outside of `Database.transaction` nobody tells how it ends: then it is done now.
    """
    actions = _after_commit.get(id(connection))
    if actions is None:
        action()
    else:
        actions.append(action)


async def _leave_as_is(_connection: Connection) -> None:
    """Nobody changes session state on a pooled connection, so that giving one back costs no round trip."""


async def connect(url: str, *, name: str = "mediamill", **settings: str) -> RawConnection:
    """A connection of its own, outside the pool (listening, claiming), with session settings."""
    return await asyncpg.connect(
        url, timeout=10, server_settings={**SESSION_SETTINGS, "application_name": name, **settings}
    )


async def _wait_for(attempt: Callable[[], Awaitable[RawConnection]], wait_seconds: float) -> RawConnection:
    deadline, pause, told = time.monotonic() + wait_seconds, 0.1, False
    while True:
        try:
            return await attempt()
        except asyncpg.ClientConfigurationError as error:  # no server will ever be there: do not wait
            raise DatabaseDownError(
                f"the address of the database is not valid: {error}",
                fix="write MEDIAMILL_DATABASE_URL like postgresql://user:password@host/name",
            ) from error
        except (*LOST, asyncpg.InvalidCatalogNameError) as error:
            if time.monotonic() >= deadline:
                raise DatabaseDownError(
                    f"the database does not answer: {error or type(error).__name__}",
                    fix="start it, or check MEDIAMILL_DATABASE_URL",
                ) from error
            if not told:
                log.warning("waiting for the database: %s", error or type(error).__name__)
                told = True
        except asyncpg.PostgresError as error:
            raise DatabaseDownError(
                f"the database refuses the connection: {error}", fix="check MEDIAMILL_DATABASE_URL"
            ) from error
        await asyncio.sleep(min(pause, max(deadline - time.monotonic(), 0)))
        pause = min(pause * 1.5, 2.0)
