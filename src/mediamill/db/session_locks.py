"""Which process works on a thing: session-level advisory locks on one connection. One that dies lets go at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection

from mediamill.db.connection import LOST, Database, RawConnection, connect

log = logging.getLogger(__name__)

TRY = "select pg_try_advisory_lock(hashtextextended($1, $2))"
FREE = "select pg_advisory_unlock(hashtextextended($1, $2))"


class SessionLocks:
    """The names that are this process's, of one class. After a lost connection they are taken again, if nobody has."""

    def __init__(self, database: Database, lock_class: int, session: str) -> None:
        self._database, self._class, self._session = database, lock_class, session
        self._connection: RawConnection | None = None
        self._mine: set[str] = set()
        self._door = asyncio.Lock()

    async def take(self, name: str) -> bool:
        """Is it ours now?"""
        async with self._door:
            connection = await self._connect()
            if name not in self._mine and await self._try(connection, name):
                self._mine.add(name)
            return name in self._mine

    async def free(self, name: str) -> None:
        """Somebody else may have it."""
        async with self._door:
            if name in self._mine:
                self._mine.discard(name)
                if self._connection is not None and not self._connection.is_closed():
                    with contextlib.suppress(*LOST):  # then the lock is gone with the connection
                        await self._connection.fetchval(FREE, name, self._class)

    async def lost(self, held: Collection[str]) -> Collection[str]:
        """Of these, which were ours, those that are somebody else's now: the connection was gone for a while."""
        async with self._door:
            await self._connect()
            return set(held) - self._mine

    async def close(self) -> None:
        """Let go of all."""
        async with self._door:
            self._mine.clear()
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None

    async def _connect(self) -> RawConnection:
        if self._connection is not None and not self._connection.is_closed():
            try:
                await self._connection.fetchval("select 1", timeout=10)
                return self._connection
            except LOST:
                self._connection.terminate()
        connection = await connect(self._database.url, name=self._session)
        try:
            self._mine = {name for name in self._mine if await self._try(connection, name)}
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        return connection

    async def _try(self, connection: RawConnection, name: str) -> bool:
        return bool(await connection.fetchval(TRY, name, self._class))
