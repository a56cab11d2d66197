"""pgqueuer on asyncpg and uvloop, by its public calls."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import asyncpg
from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.models import Job

from bench.engine import bodies
from bench.engine.peers import EVERY_PEER, LoopThread
from bench.engine.sql import execute, fetch_number

PHASES = EVERY_PEER | {"kill"}
CONCURRENCY = 500  # its batch size: jobs fetched at a time
MAX_JOBS = None
ENQUEUE_BATCH = 5000
DEQUEUE_TIMEOUT = timedelta(seconds=30)  # its default


def prepare(url: str) -> None:
    """Its own installer."""
    asyncio.run(_install(url))


async def _install(url: str) -> None:
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        await Queries(AsyncpgPoolDriver(pool)).install()


def enqueue(url: str, kind: str, count: int) -> float:
    """`Queries.enqueue` with lists, 5,000 at a time."""
    return asyncio.run(_enqueue(url, kind, count))


async def _enqueue(url: str, kind: str, count: int) -> float:
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        started = time.perf_counter()
        for first in range(0, count, ENQUEUE_BATCH):
            numbers = range(first, min(count, first + ENQUEUE_BATCH))
            payloads: list[bytes | None] = [str(i).encode() for i in numbers]
            await queries.enqueue([kind] * len(numbers), payloads, [0] * len(numbers))
        return time.perf_counter() - started


class StampSubmitter:
    """Submits by `Queries.enqueue`."""

    def __init__(self, url: str) -> None:
        self._loop = LoopThread()
        self._pool = self._loop.run(_open_pool(url))
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    def send(self, number: int) -> None:
        """Enqueue one job."""
        self._loop.run(self._queries.enqueue("stamp", str(number).encode()))

    def close(self) -> None:
        """Close the pool."""
        self._loop.run(self._pool.close())
        self._loop.close()


async def _open_pool(url: str) -> asyncpg.Pool:
    return await asyncpg.create_pool(url, min_size=1, max_size=2)


def open_submitter(url: str) -> StampSubmitter:
    """A client with connections of its own."""
    return StampSubmitter(url)


def run_worker(url: str, concurrency: int) -> None:
    """Its queue manager with the three kinds."""
    import uvloop

    uvloop.run(_work(url, concurrency))


async def _work(url: str, batch: int) -> None:
    async with asyncpg.create_pool(url, min_size=2, max_size=8) as pool:
        queuer = PgQueuer.from_asyncpg_pool(pool)

        @queuer.entrypoint("noop")
        async def noop(job: Job) -> None:
            bodies.run_noop()

        @queuer.entrypoint("stamp")
        async def stamp(job: Job) -> None:
            bodies.run_stamp(int(job.payload or b"0"))

        @queuer.entrypoint("slow")
        async def slow(job: Job) -> None:
            await bodies.run_slow(int(job.payload or b"0"))

        await queuer.run(batch_size=batch, dequeue_timeout=DEQUEUE_TIMEOUT)


def count_unfinished(url: str) -> int:
    """Finished jobs leave the queue table."""
    return fetch_number(url, "select count(*) from pgqueuer")


def fill_finished(url: str, count: int) -> None:
    """Finished jobs live in its log table."""
    execute(
        url,
        "insert into pgqueuer_log (job_id, status, priority, entrypoint)"
        f" select i, 'successful', 0, 'noop' from generate_series(1, {count}) i",
        "vacuum analyze pgqueuer_log",
    )


def fill_waiting(url: str, count: int) -> None:
    """Rows as its enqueue leaves them; the trigger is off because it would notify for each statement."""
    execute(
        url,
        "alter table pgqueuer disable trigger user",
        "insert into pgqueuer (priority, status, entrypoint, payload)"
        f" select 0, 'queued', 'noop', '1'::bytea from generate_series(1, {count})",
        "alter table pgqueuer enable trigger user",
        "vacuum analyze pgqueuer",
    )
