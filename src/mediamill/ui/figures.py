"""What the first page shows, read in one go and shared by everybody who looks at the same moment."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mediamill.db.connection import LOST, Connection, Database
from mediamill.engine import browse, watch, workers
from mediamill.staging.usage import disk_room
from mediamill.ui.subjects import Subject, subjects_of

log = logging.getLogger(__name__)

MINUTES = 60
RECENT_JOBS = 20
RUNNING_JOBS = 10
LATEST_DEAD = 5
LATEST_EVENTS = 10
MOST_WORKERS = 30
PRESENT = ("active", "idle", "busy", "paused")
# Counting what waits costs something when a million do: figures are kept for a multiple of the time they took.
KEEP_SECONDS = 0.4
KEEP_FACTOR = 4
READ_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Minute:
    """One bar of the plot."""

    at: datetime
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All of it, at one moment."""

    database_ok: bool = False
    states: dict[str, int] = field(default_factory=dict)
    pools: list[dict[str, Any]] = field(default_factory=list)
    minutes: list[Minute] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    dead: list[dict[str, Any]] = field(default_factory=list)
    dead_count: int = 0
    subjects: dict[int, Subject] = field(default_factory=dict)  # of the jobs and the dead
    events: list[dict[str, Any]] = field(default_factory=list)
    database_version: str = ""
    free_bytes: int = 0
    disk_bytes: int = 0
    waits: list[dict[str, Any]] = field(default_factory=list)  # for model servers
    redis: dict[str, Any] | None = None

    @property
    def present(self) -> int:
        """Workers that are there."""
        return sum(worker["state"] in PRESENT for worker in self.workers)

    @property
    def completed(self) -> int:
        """In the hour of the plot."""
        return sum(minute.completed for minute in self.minutes)

    @property
    def failed(self) -> int:
        """In the hour of the plot."""
        return sum(minute.failed for minute in self.minutes)

    @property
    def busy_pools(self) -> list[dict[str, Any]]:
        """Those that have jobs to do."""
        return [pool for pool in self.pools if depth(pool)]

    @property
    def deepest(self) -> int:
        """The pool with most jobs: what the bars are measured against."""
        return max((depth(pool) for pool in self.pools), default=0)

    @property
    def busiest(self) -> int:
        """The highest bar of the plot."""
        return max((minute.completed + minute.failed for minute in self.minutes), default=0)


def depth(pool: dict[str, Any]) -> int:
    """Jobs of a pool that are not done."""
    return int(sum(pool[state] for state in ("running", "queued", "scheduled", "held")))


def fill_minutes(rows: list[dict[str, Any]], now: datetime) -> list[Minute]:
    """All pools together, one entry for each of the last sixty minutes, also where nothing happened."""
    sums: dict[datetime, tuple[int, int]] = {}
    for row in rows:
        completed, failed = sums.get(row["minute"], (0, 0))
        sums[row["minute"]] = completed + row["completed"], failed + row["failed"]
    this = now.astimezone(UTC).replace(second=0, microsecond=0)
    minutes = [this - timedelta(minutes=back) for back in range(MINUTES - 1, -1, -1)]
    return [Minute(minute, *sums.get(minute, (0, 0))) for minute in minutes]


async def read_figures(connection: Connection) -> Figures:
    """From the database."""
    overview = await watch.overview(connection)
    throughput = await watch.throughput(connection, MINUTES)
    jobs, dead = await _read_jobs(connection), await browse.browse_dead(connection, amount=LATEST_DEAD)
    return Figures(
        database_ok=True,
        states=overview["states"],
        pools=overview["pools"],
        waits=overview["waits"],
        minutes=fill_minutes(throughput, datetime.now(UTC)),
        workers=await workers.list_workers(connection),
        jobs=jobs,
        dead=dead.jobs,
        subjects=await subjects_of(connection, [*jobs, *dead.jobs]),
        dead_count=overview["dead"],
        events=await browse.latest_events(connection, LATEST_EVENTS),
        database_version=(await watch.database_facts(connection))["version"],
    )


async def _read_jobs(connection: Connection) -> list[dict[str, Any]]:
    """What runs first, so that it is seen however much was enqueued since; then the newest."""
    running = (await browse.browse_jobs(connection, state="running", amount=RUNNING_JOBS)).jobs
    seen = {job["id"] for job in running}
    recent = (await browse.browse_jobs(connection, amount=RECENT_JOBS)).jobs
    return (running + [job for job in recent if job["id"] not in seen])[:RECENT_JOBS]


class FiguresDesk:
    """Reads for all pages that are open, once for those who ask together."""

    def __init__(
        self, database: Database, data_folder: Path, redis: Callable[[], dict[str, Any] | None]
    ) -> None:
        self._database, self._data_folder, self._redis = database, data_folder, redis
        self._figures = Figures()
        self._read_at = self._good_until = 0.0
        self._reading = asyncio.Lock()

    async def figures(self) -> Figures:
        """As they were a moment ago; without the database, nothing but that it is away."""
        return self._figures if time.monotonic() < self._good_until else await self.news()

    async def news(self) -> Figures:
        """Not older than the question: whoever was told of a change finds it here, if need be after a wait."""
        asked = time.monotonic()
        async with self._reading:
            if self._read_at < asked:
                await asyncio.sleep(self._good_until - time.monotonic())
                await self._read_anew()
            return self._figures

    async def _read_anew(self) -> None:
        self._read_at = time.monotonic()
        self._figures = await self._read()
        now = time.monotonic()
        if self._figures.database_ok:
            self._good_until = now + max(KEEP_SECONDS, KEEP_FACTOR * (now - self._read_at))

    async def _read(self) -> Figures:
        try:
            async with asyncio.timeout(READ_SECONDS), self._database.connection() as connection:
                figures = await read_figures(connection)
        except LOST as error:
            log.debug("the page cannot reach the database: %s", error)
            figures = Figures()
        free, total = await asyncio.to_thread(disk_room, self._data_folder)
        return replace(figures, free_bytes=free, disk_bytes=total, redis=self._redis())
