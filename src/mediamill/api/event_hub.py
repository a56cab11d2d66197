"""The hub: reads live events once per process and fans them out to any number of clients.

It listens only while somebody is there. Each client has a bounded buffer; one that is too slow is dropped, and
comes back with the cursor of the last event that it saw. A cursor is the highest event id read so far and, because
transactions commit out of the order of their ids, the few ids below it that had not been seen yet: `17` or `17~14,15`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Connection, Database
from mediamill.dispatch.choose import Dispatch
from mediamill.engine.events import Event, EventReader, last_event_id

log = logging.getLogger(__name__)

BUFFER_EVENTS = 2_000
READ_EVENTS = 500
LOOK_BACK = 500  # ids below the newest that may still be under way when the hub begins to read
POLL_SECONDS = 5.0
TICK_SECONDS = 1.0
CURSOR_GAPS = 50
CHANGED = Event(0, "changed", "", {})


@dataclass(slots=True, eq=False)
class Client:
    """A buffer between the hub and one stream. `None` in it: the end."""

    queue: asyncio.Queue[tuple[str, Event] | None] = field(
        default_factory=lambda: asyncio.Queue(BUFFER_EVENTS + 1)
    )
    ticks: bool = False
    joined_after: int = 0
    joined_gaps: frozenset[int] = frozenset()
    dropped: bool = False

    def put(self, cursor: str, event: Event) -> None:
        """Never waits: a client that does not keep up is let go."""
        if self.dropped:
            return
        if self.queue.qsize() >= BUFFER_EVENTS:
            self.drop()
        else:
            self.queue.put_nowait((cursor, event))

    def drop(self) -> None:
        """The stream ends after what it has."""
        if not self.dropped:
            self.dropped = True
            self.queue.put_nowait(None)


class EventHub:
    """One per process."""

    def __init__(self, database: Database, dispatch: Dispatch | None = None) -> None:
        self._database, self._dispatch = database, dispatch or Dispatch()
        self._clients: set[Client] = set()
        self._reader: EventReader | None = None
        self._reading = asyncio.Lock()
        self._wake, self._tick = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.closed = asyncio.Event()
        self.sent = self.dropped = 0

    @property
    def streams(self) -> int:
        """How many clients follow."""
        return len(self._clients)

    async def join(self, *, ticks: bool = False) -> Client:
        """A client that gets everything from now on; what came before it reads itself, up to where it joined."""
        client = Client(ticks=ticks)
        async with self._reading:
            if self._reader is None:
                self._reader = await self._begin()
            client.joined_after, client.joined_gaps = self._reader.after, frozenset(self._reader.gaps)
            self._clients.add(client)
        if not self._tasks:
            self._tasks = [asyncio.create_task(run()) for run in (self._listen, self._read_on, self._tick_on)]
        if self.closed.is_set():
            client.drop()
        return client

    def leave(self, client: Client) -> None:
        """The last one out stops the listening."""
        self._clients.discard(client)
        if client.dropped and not self.closed.is_set():
            self.dropped += 1
        if not self._clients:
            self._stop()

    def close(self) -> None:
        """End all streams at once."""
        self.closed.set()
        for client in self._clients:
            client.drop()
        self._stop()

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks, self._reader = [], None

    async def _begin(self) -> EventReader:
        async with self._database.connection() as connection:
            reader = EventReader(max(0, await last_event_id(connection) - LOOK_BACK))
            await reader.read(connection, LOOK_BACK)
        return reader

    async def _listen(self) -> None:
        channels = ("mediamill_events", "mediamill_jobs")
        listener = self._dispatch.ears(self._database, channels, self._heard, name="mediamill events")
        try:
            await listener.start()
            await asyncio.Event().wait()
        finally:
            await listener.close()

    def _heard(self, channel: str, _payload: str) -> None:
        self._tick.set()
        if channel != "mediamill_jobs":
            self._wake.set()

    async def _read_on(self) -> None:
        while True:
            self._wake.clear()  # before the read: what is announced meanwhile is read in the next round
            try:
                while await self._read_once():
                    pass
            except LOST as error:
                log.debug("events: the database is away: %s", error)
            except Exception:
                log.exception("events cannot be read")
            await wait_at_most(self._wake, POLL_SECONDS)

    async def _read_once(self) -> bool:
        """One batch to everybody; whether there may be more."""
        async with self._reading, self._database.connection() as connection:
            if self._reader is None:
                return False
            events = await read_with_cursors(self._reader, connection)
        for cursor, event in events:
            for client in self._clients:
                client.put(cursor, event)
        self.sent += len(events) * len(self._clients)
        return len(events) == READ_EVENTS

    async def _tick_on(self) -> None:
        """That something changed is told at most once a second; the last change is never left out."""
        while True:
            await self._tick.wait()
            self._tick.clear()
            began = time.monotonic()
            for client in self._clients:
                if client.ticks:
                    client.put("", CHANGED)
            await asyncio.sleep(TICK_SECONDS - (time.monotonic() - began))


async def read_with_cursors(reader: EventReader, connection: Connection) -> list[tuple[str, Event]]:
    """What is new, each with the cursor of a client that has seen everything up to it."""
    shadow = EventReader(reader.after, dict(reader.gaps))
    events = await reader.read(connection, READ_EVENTS)
    cursors = []
    for event in events:
        shadow.note([event.id])
        cursors.append(write_cursor(shadow))
    return list(zip(cursors, events, strict=True))


def write_cursor(reader: EventReader) -> str:
    """Where to go on from."""
    gaps = ",".join(str(gap) for gap in sorted(reader.gaps)[-CURSOR_GAPS:])
    return f"{reader.after}~{gaps}" if gaps else str(reader.after)


def read_cursor(text: str) -> EventReader | None:
    """A reader that goes on from a cursor; None if it is not one."""
    after, _, gaps = text.strip().partition("~")
    numbers: Sequence[str] = [after, *(gap for gap in gaps.split(",") if gap)]
    if len(numbers) > CURSOR_GAPS + 1 or not all(
        number.isascii() and number.isdigit() and len(number) < 19 for number in numbers
    ):
        return None
    now = time.monotonic()
    return EventReader(int(after), {int(gap): now for gap in numbers[1:]})
