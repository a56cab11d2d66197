"""Wakes remote workers: what a local worker hears from the database itself is passed on to them while they listen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from mediamill.clock import wait_at_most
from mediamill.db.notify import Listener

CHANNELS = {"mediamill_jobs": "jobs", "mediamill_pools": "pools", "mediamill_workers": "worker"}
KEEP_ALIVE_SECONDS = 15.0
MOST_WAITING = 1_000


class Waiter:
    """One worker that listens: what it has not been told yet, each thing once."""

    def __init__(self) -> None:
        self.news: set[tuple[str, str]] = set()
        self.told, self.ended = asyncio.Event(), False

    def tell(self, channel: str, payload: str) -> None:
        """A hint only; one who lags behind is told to look at everything."""
        if len(self.news) >= MOST_WAITING:
            self.news = {("", "")}
        self.news.add((channel, payload))
        self.told.set()


class WakeHub:
    """One session of the database for all who listen; it begins with the first."""

    def __init__(self, url: str) -> None:
        self._waiters: set[Waiter] = set()
        self._listener = Listener(url, tuple(CHANNELS), self._hear, name="mediamill wakes")
        self._starting: asyncio.Task[None] | None = None

    async def listen(self, worker_id: int) -> AsyncGenerator[str, None]:
        """Lines of JSON: {"jobs": pool}, {"pools": ""}, {"worker": id}; {"": ""}: look at everything."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._listener.start())
        waiter = Waiter()
        self._waiters.add(waiter)
        try:
            waiter.tell("", "")
            while not waiter.ended:
                if not await wait_at_most(waiter.told, KEEP_ALIVE_SECONDS):
                    yield "\n"
                    continue
                waiter.told.clear()
                news, waiter.news = waiter.news, set()
                for channel, payload in sorted(news):
                    if channel != "worker" or payload == str(worker_id):
                        yield json.dumps({channel: payload}) + "\n"
        finally:
            self._waiters.discard(waiter)

    def _hear(self, channel: str, payload: str) -> None:
        for waiter in self._waiters:
            waiter.tell(CHANNELS.get(channel, ""), payload)

    def end_streams(self) -> None:
        """The server stops: a stream never ends by itself."""
        for waiter in self._waiters:
            waiter.ended = True
            waiter.told.set()

    async def close(self) -> None:
        """Let go of the session."""
        self.end_streams()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._listener.close()
