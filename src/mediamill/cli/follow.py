"""Following what happens: wake-ups by NOTIFY with a poll behind them, through restarts of the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from mediamill.cli.terminal import warn
from mediamill.clock import wait_at_most

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.db.connection import Connection
    from mediamill.engine.events import Event

T = TypeVar("T")
Wait = Callable[[float], Awaitable[None]]

POLL_SECONDS = 1.0
CHANNELS = ("mediamill_events",)


@asynccontextmanager
async def wakeups(app: App) -> AsyncIterator[Wait]:
    """A way to wait until something is announced, or for so many seconds at most."""
    from mediamill.db.notify import Listener

    heard = asyncio.Event()
    listener = Listener(app.database.url, CHANNELS, lambda *_: heard.set(), name="mediamill watch")
    await listener.start()

    async def wait(seconds: float) -> None:
        await wait_at_most(heard, seconds)
        heard.clear()

    try:
        yield wait
    finally:
        await listener.close()


async def read_patiently(app: App, read: Callable[[Connection], Awaitable[T]]) -> T:
    """Read; while the database is away, wait for it."""
    from mediamill.db.connection import LOST

    told = False
    while True:
        try:
            async with app.database.connection() as connection:
                return await read(connection)
        except LOST as error:
            if not told:
                warn(f"waiting for the database: {error or type(error).__name__}", style="yellow")
                told = True
            await asyncio.sleep(POLL_SECONDS / 2)


async def follow_events(app: App, after: int | None) -> AsyncGenerator[Event, None]:
    """Events as they come, from an id on, or from now on."""
    from mediamill.engine.events import EventReader, last_event_id

    async with wakeups(app) as wait:
        begin = await read_patiently(app, last_event_id) if after is None else after
        reader = EventReader(begin)
        while True:
            events = await read_patiently(app, reader.read)
            for event in events:
                yield event
            if not events:
                await wait(POLL_SECONDS)
