"""Looking at runs: one, those of a thread, and waiting for one to change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from uuid import UUID

from asyncpg import Record

from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Connection, Database
from mediamill.db.notify import Listener
from mediamill.inputs.model import ENDED, Run, RunNotFailedError, UnknownRunError, agent_choice
from mediamill.inputs.store import CHANNEL, queries

LOOK_SECONDS = 5.0  # without a word: a notification can be lost with its connection
AWAY_SECONDS = 1.0

_FIELDS = tuple(field.name for field in fields(Run) if field.name != "agent")


def run_of(row: Record) -> Run:
    """A row with images_waiting."""
    return Run(**{name: row[name] for name in _FIELDS}, agent=agent_choice(json.loads(row["agent"])))


async def show_run(connection: Connection, run_id: UUID) -> Run:
    """One run."""
    row = await queries.show_run.row(connection, run_id=run_id)
    if row is None:
        raise UnknownRunError(f"there is no run {run_id}", fix="mediamill runs list shows those there are")
    return run_of(row)


async def list_runs(
    connection: Connection, thread_key: str | None = None, *, before: int | None = None, amount: int = 50
) -> list[Run]:
    """Newest first, of one thread or of all; `before`: the sequence of the last one seen."""
    if thread_key is None:
        rows = await queries.list_runs.rows(connection, before=before, amount=amount)
    else:
        rows = await queries.list_thread_runs.rows(
            connection, thread_key=thread_key, before=before, amount=amount
        )
    return [run_of(row) for row in rows]


async def retry_run(connection: Connection, run_id: UUID) -> Run:
    """A run that failed, once more."""
    if await queries.retry_run.row(connection, run_id=run_id) is None:
        run = await show_run(connection, run_id)
        raise RunNotFailedError(
            f"the run {run_id} is {run.state}", fix="a run that failed can be tried again"
        )
    return await show_run(connection, run_id)


class RunWatch:
    """Who waits for a run is woken when it changes, in whatever process that was."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._listener = Listener(database.url, [CHANNEL], self._heard, name="mediamill runs heard")
        self.closed = False

    async def start(self) -> None:
        """Begin to listen."""
        await self._listener.start()

    def end_streams(self) -> None:
        """The server stops: whoever watches for somebody outside looks at `closed` and leaves."""
        self.closed = True
        self._heard("", "")

    async def close(self) -> None:
        """Nobody is told any more."""
        self.end_streams()
        await self._listener.close()

    @contextmanager
    def changes(self, run_id: UUID) -> Iterator[asyncio.Event]:
        """An event that is set whenever the run may have changed; clear it before looking."""
        event, key = asyncio.Event(), str(run_id)
        self._waiting.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]

    async def until_ended(self, run_id: UUID) -> Run:
        """The run, completed or failed. A database that is away is waited for."""
        with self.changes(run_id) as changed:
            while True:
                changed.clear()
                seconds = LOOK_SECONDS
                try:
                    async with self._database.connection() as connection:
                        run = await show_run(connection, run_id)
                    if run.state in ENDED:
                        return run
                except LOST:
                    seconds = AWAY_SECONDS  # nobody tells again what could not be looked at now
                await wait_at_most(changed, seconds)

    def _heard(self, _channel: str, run_id: str) -> None:
        """No id is a listener that was away: everybody looks."""
        heard = self._waiting.get(run_id, set()) if run_id else set().union(*self._waiting.values())
        for event in heard:
            event.set()
