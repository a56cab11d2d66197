"""IngestionService: finished messages out of memory into the queues table, about once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from mediamill.clock import wait_at_most
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.model import Message
from mediamill.conversations.store import queries
from mediamill.db.connection import LOST, Database

log = logging.getLogger(__name__)

BATCH = 1_000
LEFT_BEHIND_SECONDS = 60.0

Key = tuple[str, str, Message]


class IngestionService:
    """Of one bot. Placeholders are never persisted: only what `pop_ready_message` gives.

    `before`: what must be safe before a message leaves memory (that an answer to it is due, say).
    """

    def __init__(
        self,
        database: Database,
        bot_id: str,
        queues: Sequence[BotQueuesManager],
        *,
        every_seconds: float = 1.0,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._database, self._bot_id, self._queues = database, bot_id, queues
        self._every_seconds, self._before = every_seconds, before
        self._popped: list[Key] = []  # out of memory, not stored yet: kept until the database has them
        self._told = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=f"ingestion of {self._bot_id}")

    async def stop(self) -> None:
        """Stop; what is finished by now is stored once more before this returns."""
        self._told.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        try:
            await self.ingest()
        except LOST as error:  # the records have it: the next start stores it
            log.warning("bot %s: the last messages are stored at the next start: %s", self._bot_id, error)

    async def ingest(self) -> int:
        """Store what is finished. How many messages."""
        for queue in self._queues:
            await queue.settle_uncertain()
            self._popped += [
                (queue.provider_name, correspondent_id, message)
                for correspondent_id, message in queue.pop_ready_messages()
            ]
        stored = 0
        if self._popped and self._before is not None:
            await self._before()
        while self._popped:
            batch = self._popped[:BATCH]
            await self._store([(provider, person, message.id) for provider, person, message in batch])
            del self._popped[:BATCH]
            stored += len(batch)
        return stored

    async def store_left_behind(self) -> int:
        """Messages that a limit evicted from memory before they were stored: straight from the records.

        Not those whose placeholder still waits in memory: their text is on its way there, and nobody has heard it yet.
        """
        async with self._database.connection() as connection:
            rows = await queries.left_behind.rows(
                connection, bot_id=self._bot_id, older_than_seconds=LEFT_BEHIND_SECONDS, batch=BATCH
            )
        awaited = {
            (queue.provider_name, correspondent_id, message.id)
            for queue in self._queues
            for correspondent_id, message in queue.placeholders()
        }
        keys = [key for row in rows if (key := tuple(row)) not in awaited]
        if keys:
            if self._before is not None:
                await self._before()
            await self._store(keys)
        return len(keys)

    async def _store(self, keys: Sequence[tuple[str, str, int]]) -> None:
        providers, people, ids = zip(*keys, strict=True)
        async with self._database.transaction() as connection:
            await queries.store_messages.run(
                connection, bot_id=self._bot_id, provider_names=providers, correspondent_ids=people, ids=ids
            )

    async def _run(self) -> None:
        while not self._told.is_set():
            try:
                await self.ingest()
                await self.store_left_behind()
            except LOST as error:
                log.debug("ingestion: the database is away: %s", error)
            except Exception:
                log.exception("bot %s: the ingestion failed", self._bot_id)
            await wait_at_most(self._told, self._every_seconds)
