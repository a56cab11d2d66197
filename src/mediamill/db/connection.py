"""The pool of connections, transactions, and the one place that says what a connection is."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mediamill.clock import pauses
from mediamill.errors import UnavailableError
from mediamill.silence import IDLE_SECONDS, INTERVAL_SECONDS, PROBES, SILENCE_SECONDS, SOCKET_OPTIONS

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    RawConnection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:
    Connection = RawConnection = Pool = Any

log = logging.getLogger(__name__)

OLDEST_VERSION = 16
CONNECT_SECONDS = 10

# A peer that vanished without a word (a machine cut off) is noticed within about ten seconds, so that its
# session, and with it the sign that its worker lives, does not outlast it. Ours waits no longer for an answer either.
SESSION_SETTINGS = {
    "jit": "off",
    "tcp_keepalives_idle": str(IDLE_SECONDS),
    "tcp_keepalives_interval": str(INTERVAL_SECONDS),
    "tcp_keepalives_count": str(PROBES),
    "tcp_user_timeout": str(SILENCE_SECONDS * 1000),
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
# That, or two transactions met on the same rows and ours was undone: nothing is wrong with what was asked.
ASK_AGAIN = (*LOST, asyncpg.TransactionRollbackError)


WHO = "select pg_backend_pid()"
WHERE = "select row (pg_postmaster_start_time(), current_database())::text"

_after_commit: dict[int, list[Callable[[], None]]] = {}  # by connection, while its transaction lasts


class DatabaseTooOldError(UnavailableError):
    """The database server is too old."""

    code = "database_too_old"


class DatabaseDownError(UnavailableError):
    """The database does not answer."""

    code = "database_down"


class PoolerInBetweenError(UnavailableError):
    """A pooler in transaction mode has no sessions."""

    code = "database_pooler"

    def __init__(self, message: str) -> None:
        direct = "name PostgreSQL itself in MEDIAMILL_DATABASE_DIRECT_URL"
        super().__init__(message, fix=f"{direct}, and leave the pooler in MEDIAMILL_DATABASE_URL")


class Database:
    """A pool on one PostgreSQL database. `url` is for sessions of one's own: locks, listening, claims.

    `pooled`: the pool comes through a pooler, which keeps sessions, and the names they had, when their users are gone.
    """

    def __init__(self, url: str, pool: Pool, *, pooled: bool = False) -> None:
        self.url = url
        self.pool = pool
        self.pooled = pooled

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        pooler_url: str | None = None,
        connections: int = 8,
        name: str = "mediamill",
        wait_seconds: float = 10,
    ) -> Database:
        """Connect; wait for a server that is down, and say so; refuse one that is too old, or that has no sessions.

        `pooler_url`: the way through a pooler in transaction mode, for everything that needs no session.
        """
        await _check_server(url, name, wait_seconds)
        return await cls.open_unchecked(url, pooler_url=pooler_url, connections=connections, name=name)

    @classmethod
    async def open_unchecked(
        cls, url: str, *, pooler_url: str | None = None, connections: int = 8, name: str = "mediamill"
    ) -> Database:
        """The same for a server that is known: it connects when a connection is needed."""
        # A pooler takes no settings for a session, and gives each transaction another: no statement stays prepared.
        way: dict[str, Any] = (
            {"server_settings": {**SESSION_SETTINGS, "application_name": name}}
            if pooler_url is None
            else {"server_settings": {"application_name": name}, "statement_cache_size": 0}
        )
        pool = await asyncpg.create_pool(
            pooler_url or url,
            min_size=0,
            max_size=connections,
            max_inactive_connection_lifetime=300,
            timeout=CONNECT_SECONDS,
            init=_notice_silence,
            reset=_leave_as_is,
            command_timeout=None,
            **way,
        )
        return cls(url, pool, pooled=pooler_url is not None)

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
    connection = await asyncpg.connect(
        url,
        timeout=CONNECT_SECONDS,
        server_settings={**SESSION_SETTINGS, "application_name": name, **settings},
    )
    await _notice_silence(connection)
    return connection


async def _notice_silence(connection: Connection) -> None:
    """A server that is cut off, or loses its power, says nothing: without this we would wait for its answer for ever.

    The driver has no setting for it, and only its transport knows the socket.
    """
    ours = connection._transport.get_extra_info("socket")  # type: ignore[union-attr]
    if ours is None or ours.family == socket.AF_UNIX:
        return
    for option in SOCKET_OPTIONS:
        ours.setsockopt(*option)


async def _connect_to_look(url: str, name: str = "mediamill") -> RawConnection:
    """The same for a look at what answers there: nothing stays prepared, so a pooler takes it, too."""
    settings = {**SESSION_SETTINGS, "application_name": name}
    return await asyncpg.connect(
        url, timeout=CONNECT_SECONDS, statement_cache_size=0, server_settings=settings
    )


async def has_sessions(url: str, connection: RawConnection) -> bool:
    """Is it always the same process of PostgreSQL that answers? Not behind a pooler in transaction mode.

    A pooler makes up the process id that it greets with. In transaction mode a second connection then gets the process
    of the first one, which is idle, and keeps it for its transaction, so that the first is answered by another.
    """
    mine = await connection.fetchval(WHO)
    if mine == connection.get_server_pid():
        return True
    other = await _connect_to_look(url)
    try:
        async with other.transaction():
            await other.fetchval(WHO)
            return bool(mine == await connection.fetchval(WHO))
    finally:
        await other.close()


async def is_same_database(url: str, connection: Connection) -> bool:
    """Does this address lead to the database of this connection?"""
    other = await connect(url)
    try:
        return bool(await other.fetchval(WHERE) == await connection.fetchval(WHERE))
    finally:
        await other.close()


async def _check_server(url: str, name: str, wait_seconds: float) -> None:
    first = await _wait_for(lambda: _connect_to_look(url, name), wait_seconds)
    try:
        version = first.get_server_version()
        if version.major < OLDEST_VERSION:
            raise DatabaseTooOldError(
                f"the database is PostgreSQL {version.major}; mediamill needs {OLDEST_VERSION} or newer",
                fix="point MEDIAMILL_DATABASE_URL at a newer server, or unset it to use the embedded one",
            )
        if not await has_sessions(url, first):
            raise PoolerInBetweenError("the database is behind a pooler in transaction mode")
    finally:
        await first.close()


async def _wait_for(attempt: Callable[[], Awaitable[RawConnection]], wait_seconds: float) -> RawConnection:
    deadline, waits, told = time.monotonic() + wait_seconds, pauses(0.1, 2.0), False
    while True:
        try:
            return await attempt()
        except asyncpg.ClientConfigurationError as error:  # no server will ever be there: do not wait
            raise DatabaseDownError(
                f"the address of the database is not valid: {error}",
                fix="write MEDIAMILL_DATABASE_URL like postgresql://user:password@host/name",
            ) from error
        except (*LOST, asyncpg.InvalidCatalogNameError) as error:
            if "startup parameter" in str(error):  # PgBouncer takes few, and says so
                raise PoolerInBetweenError(f"the database is behind a pooler: {error}") from error
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
        await asyncio.sleep(min(next(waits), max(deadline - time.monotonic(), 0)))
