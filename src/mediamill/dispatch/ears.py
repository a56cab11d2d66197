"""Hearing what the database tells: from the database itself, or from Redis by Pub/Sub with the database behind it.

Either way only that there is something new; what it is, whoever hears reads from the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from mediamill.db.connection import LOST, Database
from mediamill.db.notify import Heard, Listener
from mediamill.dispatch.link import BLOCK_SECONDS, RedisAwayError, RedisLink

log = logging.getLogger(__name__)


class Ears(Protocol):
    """As db.notify.Listener: `heard("", "")` after anything may have been missed."""

    async def start(self) -> None:
        """Begin to listen."""

    async def close(self) -> None:
        """Listen no more."""


class RedisEars:
    """Subscribed at Redis; in hybrid mode the database is listened to while hints do not flow."""

    def __init__(
        self,
        link: RedisLink,
        database: Database,
        channels: Sequence[str],
        heard: Heard,
        *,
        name: str,
        hybrid: bool,
    ) -> None:
        self._link, self._database, self._channels, self._heard = link, database, tuple(channels), heard
        self._listener = Listener(database.url, channels, heard, name=name) if hybrid else None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See Ears. Redis is not waited for."""
        self._task = asyncio.create_task(self._run(), name="mediamill ears")
        if self._listener is not None:
            self._follow()
            self._link.watchers.append(self._follow)
            await self._listener.start()

    async def close(self) -> None:
        """See Ears."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._listener is not None:
            if self._follow in self._link.watchers:
                self._link.watchers.remove(self._follow)
            await self._listener.close()

    def _follow(self) -> None:
        if self._listener is not None:
            self._listener.set_channels(() if self._link.flowing else self._channels)

    async def _run(self) -> None:
        while True:
            try:
                await self._link.up.wait()
                await self._listen(await self._link.name(self._database))
            except (RedisAwayError, *LOST) as error:
                log.debug("ears: %s", error)
                await asyncio.sleep(0.05)
            except Exception:
                log.exception("Redis cannot be heard")
                await asyncio.sleep(1)

    async def _listen(self, name: str) -> None:
        prefix = f"{name}:"
        with self._link.watched():
            async with self._link.client.pubsub(ignore_subscribe_messages=True) as subscription:
                await subscription.subscribe(*(prefix + channel for channel in self._channels))
                self._heard("", "")
                while self._link.up.is_set():
                    with self._link.watched():
                        message = await subscription.get_message(timeout=BLOCK_SECONDS)
                    if message is not None:
                        self._heard(message["channel"].removeprefix(prefix), message["data"])
