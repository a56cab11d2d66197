"""Which process runs a bot: session-level advisory locks on one connection. A process that dies lets go at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection

from mediamill.conversations.store import BOT_LOCKS, queries
from mediamill.db.connection import LOST, Database, RawConnection, connect

log = logging.getLogger(__name__)


class BotLocks:
    """The bots that this process runs. After a lost connection they are taken again, if nobody else has."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: RawConnection | None = None
        self._mine: set[str] = set()
        self._door = asyncio.Lock()

    async def take(self, bot_id: str) -> bool:
        """Is it ours now?"""
        async with self._door:
            connection = await self._connect()
            if bot_id not in self._mine and await self._try(connection, bot_id):
                self._mine.add(bot_id)
            return bot_id in self._mine

    async def free(self, bot_id: str) -> None:
        """Somebody else may run it."""
        async with self._door:
            if bot_id in self._mine:
                self._mine.discard(bot_id)
                if self._connection is not None and not self._connection.is_closed():
                    with contextlib.suppress(*LOST):  # then the lock is gone with the connection
                        await queries.free_bot_lock.value(self._connection, id=bot_id, lock_class=BOT_LOCKS)

    async def lost(self, running: Collection[str]) -> Collection[str]:
        """Of the bots that run here, those that are somebody else's now: the connection was gone for a while."""
        async with self._door:
            await self._connect()
            return set(running) - self._mine

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
        connection = await connect(self._database.url, name="mediamill bots")
        try:
            self._mine = {bot_id for bot_id in self._mine if await self._try(connection, bot_id)}
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        return connection

    @staticmethod
    async def _try(connection: RawConnection, bot_id: str) -> bool:
        return bool(await queries.try_bot_lock.value(connection, id=bot_id, lock_class=BOT_LOCKS))
