"""Listening: one connection that hears notifications, and gets itself back when the server goes away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from mediamill.clock import pauses, wait_at_most
from mediamill.db.connection import LOST, Connection, RawConnection, connect

log = logging.getLogger(__name__)

PAUSE_SECONDS = (0.05, 1.0)  # between two tries to connect: the first, the longest

Heard = Callable[[str, str], None]
Connected = Callable[[RawConnection], Awaitable[None]]


class Listener:
    """Listens on channels for as long as it runs; after each (re)connection it first calls `on_connected`.

    `on_connected` may take session-level locks: they live exactly as long as this session.
    A lost session is followed by `heard("", "")`, so that a listener looks for what it missed.
    """

    def __init__(
        self,
        url: str,
        channels: Sequence[str],
        heard: Heard,
        *,
        name: str = "mediamill listener",
        on_connected: Connected | None = None,
    ) -> None:
        self._url = url
        self._channels = frozenset(channels)
        self._heard = heard
        self._name = name
        self._on_connected = on_connected
        self._task: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self.connected = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Has it begun, and not ended with an error of `on_connected`?"""
        return self._task is not None and not self._task.done()

    def set_channels(self, channels: Sequence[str]) -> None:
        """Listen on these from soon on. New ones are followed by `heard("", "")`, too."""
        self._channels = frozenset(channels)
        self._stirred.set()

    async def start(self) -> None:
        """Begin; returns once the first session stands."""
        self._task = asyncio.create_task(self._run(), name=self._name)
        waiting = asyncio.create_task(self.connected.wait())
        try:
            done, _ = await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        finally:
            waiting.cancel()
        if self._task in done:
            self._task.result()

    async def close(self) -> None:
        """End the session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        waits = pauses(*PAUSE_SECONDS)
        while True:
            try:
                await self._listen_once()
                waits = pauses(*PAUSE_SECONDS)
            except (*LOST, asyncpg.PostgresError) as error:  # whatever it is, a listener does not give up
                log.debug("listener cannot connect: %s", error)
                await asyncio.sleep(next(waits))
            self.connected.clear()

    async def _listen_once(self) -> None:
        connection = await connect(self._url, name=self._name)
        try:
            connection.add_termination_listener(lambda _: self._stirred.set())
            heard_on = await self._follow_channels(connection, frozenset())
            if self._on_connected is not None:
                await self._on_connected(connection)
            self.connected.set()
            self._heard("", "")
            while not connection.is_closed():
                if heard_on != self._channels:
                    heard_on = await self._follow_channels(connection, heard_on)
                    self._heard("", "")
                elif not await wait_at_most(self._stirred, 10):
                    await connection.fetchval("select 1", timeout=10)
                self._stirred.clear()
        finally:
            connection.terminate()

    async def _follow_channels(self, connection: RawConnection, heard_on: frozenset[str]) -> frozenset[str]:
        wanted = self._channels
        for channel in wanted - heard_on:
            await connection.add_listener(channel, self._on_notification)
        for channel in heard_on - wanted:
            await connection.remove_listener(channel, self._on_notification)
        return wanted

    def _on_notification(self, _connection: Connection, _pid: int, channel: str, payload: object) -> None:
        self._heard(channel, str(payload))
