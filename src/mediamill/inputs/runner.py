"""Working off runs. Each thread that has work is taken by one process; its runs go to the agent in order.

A run that steers is said into the one that goes on; everything else waits for its turn. A run is written by the try
that was started last, so that a process that lost its thread without noticing changes nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from mediamill.agents.choose import Agents
from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Database
from mediamill.db.notify import Listener
from mediamill.db.session_locks import SessionLocks
from mediamill.inputs.attempt import Attempt, Shrinker
from mediamill.inputs.look import run_of
from mediamill.inputs.model import Run
from mediamill.inputs.store import CHANNEL, THREAD_LOCKS, queries

log = logging.getLogger(__name__)

THREADS_AT_ONCE = 16
OPEN_RUNS = 20  # of a thread, looked at together
POLL_SECONDS = 5.0
AWAY_SECONDS = 1.0


class RunKeeper:
    """One per server process."""

    def __init__(self, database: Database, agents: Agents, shrink: Shrinker, scratch: Path) -> None:
        self._database, self._agents, self._shrink, self._scratch = database, agents, shrink, scratch
        self._locks = SessionLocks(database, THREAD_LOCKS, "mediamill threads")
        self._threads: dict[str, _Thread] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled; what is under way is put back and taken up at the next start."""
        listener = Listener(self._database.url, [CHANNEL], self._heard, name="mediamill runs")
        try:
            await self._shrink.start()
            await listener.start()
            while True:
                self._woken.clear()
                try:
                    await self._look()
                except LOST as error:
                    log.debug("runs: the database is away: %s", error)
                await wait_at_most(self._woken, POLL_SECONDS)
        finally:
            await listener.close()
            await self._stop()

    async def _stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._shrink.close()
        await self._locks.close()

    def _heard(self, _channel: str, _run_id: str) -> None:
        self._woken.set()

    async def _look(self) -> None:
        """Threads with work that nobody has are taken, as many as there is room for; those that are ours look again."""
        async with self._database.connection() as connection:
            keys = [row["thread_key"] for row in await queries.open_threads.rows(connection)]
        for key in await self._locks.lost(self._tasks) if self._tasks else ():
            log.error("another process works on the thread %r now", key)
            self._tasks[key].cancel()
        for key in keys:
            if key in self._threads:
                self._threads[key].woken.set()
            elif len(self._threads) < THREADS_AT_ONCE and await self._locks.take(key):
                self._begin(key)

    def _begin(self, key: str) -> None:
        thread = self._threads[key] = _Thread(key, self._database, self._attempt)
        self._tasks[key] = asyncio.create_task(self._work(thread), name=f"thread {key[:40]}")

    async def _work(self, thread: _Thread) -> None:
        try:
            await thread.work_off()
        except Exception:
            log.exception("the thread %r stopped; it is taken up again", thread.key)
        finally:
            del self._threads[thread.key], self._tasks[thread.key]
            await self._locks.free(thread.key)
            self._woken.set()  # there is room for another thread, and this one may have got work meanwhile

    def _attempt(self, run: Run, on_asking: Callable[[], None]) -> Attempt:
        return Attempt(run, self._database, self._agents, self._shrink, self._scratch, on_asking)


class _Thread:
    """A thread that is ours, until all its runs are done."""

    def __init__(
        self, key: str, database: Database, attempt: Callable[[Run, Callable[[], None]], Attempt]
    ) -> None:
        self.key, self._database, self._attempt = key, database, attempt
        self.woken = asyncio.Event()
        self._running: dict[UUID, tuple[Attempt, asyncio.Task[None]]] = {}

    async def work_off(self) -> None:
        try:
            while True:
                self.woken.clear()
                try:
                    wait_seconds = await self._start_due()
                except LOST as error:
                    log.debug("thread %r: the database is away: %s", self.key, error)
                    wait_seconds = AWAY_SECONDS
                if wait_seconds is None:
                    return
                await wait_at_most(self.woken, wait_seconds)
        finally:
            tasks = [task for _, task in self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start_due(self) -> float | None:
        """Start what may start now. For how long there is nothing to do; None: all is done."""
        async with self._database.connection() as connection:
            rows = await queries.open_runs.rows(connection, thread_key=self.key, amount=OPEN_RUNS)
        if not rows and not self._running:
            return None
        for row in rows:
            run = run_of(row)
            if run.run_id in self._running:
                continue
            if self._running and not self._may_steer(run):
                break
            if row["wait_seconds"] > 0:
                return min(POLL_SECONDS, float(row["wait_seconds"]))
            self._start(run)
        return POLL_SECONDS

    def _may_steer(self, run: Run) -> bool:
        """Into what goes on, once the agent has it: else the agent would hear this first."""
        return run.delivery_mode == "steer" and all(
            attempt.is_asking for attempt, _ in self._running.values()
        )

    def _start(self, run: Run) -> None:
        attempt = self._attempt(run, self.woken.set)
        task = asyncio.create_task(attempt.make())
        self._running[run.run_id] = attempt, task
        task.add_done_callback(lambda _: self._ended(run.run_id))

    def _ended(self, run_id: UUID) -> None:
        _, task = self._running.pop(run_id)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("run %s: an attempt broke", run_id, exc_info=error)
        self.woken.set()
