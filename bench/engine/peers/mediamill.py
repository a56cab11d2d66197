"""Our own engine: durable finishes, fair claims, leases, archive of finished jobs, all as in production."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.engine import bodies
from bench.engine.peers import EVERY_PEER, LoopThread
from bench.engine.sql import execute, fetch_number
from mediamill.db.connection import Database
from mediamill.db.migrate import upgrade
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds, Run
from mediamill.engine.model import NewJob
from mediamill.engine.pools import set_pools
from mediamill.engine.rules import Engine
from mediamill.processors.contract import ProcessorOutput
from mediamill.worker import run
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker
from mediamill.worker.sandbox import Sandbox

PHASES = EVERY_PEER | {"kill", "kill-elsewhere", "sandbox"}
CONCURRENCY = 100
MAX_JOBS = None
ENQUEUE_BATCH = 5000
PLUGIN = Path(__file__).parents[1] / "plugin"
ROOT = Path(__file__).parents[3]


async def _noop(run: Run) -> None:
    bodies.run_noop()


async def _stamp(run: Run) -> None:
    bodies.run_stamp(run.payload["i"])


async def _slow(run: Run) -> None:
    await bodies.run_slow(run.payload["i"])


KINDS = Kinds(
    [
        JobKind("noop", handler=_noop),
        JobKind("stamp", handler=_stamp),
        JobKind("slow", handler=_slow),
        JobKind("sandbox"),
    ]
)


def prepare(url: str) -> None:
    """Migrations, and one pool, the catch-all, for jobs in the worker's own process."""
    asyncio.run(_prepare(url))


async def _prepare(url: str) -> None:
    await upgrade(url)
    await _set_pools(url, {"name": "default", "concurrency": CONCURRENCY}, replace=True)


async def _set_pools(url: str, *pools: dict[str, Any], replace: bool = False) -> None:
    database = await Database.open(url)
    async with database.transaction() as connection:
        await set_pools(connection, pools, ["bench"], replace=replace)
    await database.close()


def enqueue(url: str, kind: str, count: int) -> float:
    """`Enqueuer.enqueue_jobs`, 5,000 in a transaction."""
    return asyncio.run(_enqueue(url, kind, count))


async def _enqueue(url: str, kind: str, count: int) -> float:
    if kind == "sandbox":
        await _set_pools(url, {"name": "sandbox", "matches": [kind], "processor": "bench", "concurrency": 2})
    database, enqueuer = await Database.open(url), Enqueuer(KINDS)
    async with database.connection() as connection:
        await connection.fetchval("select 1")
    started = time.perf_counter()
    for first in range(0, count, ENQUEUE_BATCH):
        async with database.transaction() as connection:
            await enqueuer.enqueue_jobs(
                connection, [NewJob(kind, {"i": i}) for i in range(first, min(count, first + ENQUEUE_BATCH))]
            )
    seconds = time.perf_counter() - started
    await database.close()
    return seconds


class StampSubmitter:
    """Submits by `Enqueuer.enqueue_job`: one statement, one transaction."""

    def __init__(self, url: str) -> None:
        self._loop = LoopThread()
        self._database = self._loop.run(Database.open(url))
        self._enqueuer = Enqueuer(KINDS)

    def send(self, number: int) -> None:
        """Enqueue one job."""
        self._loop.run(self._send(number))

    async def _send(self, number: int) -> None:
        async with self._database.connection() as connection:
            await self._enqueuer.enqueue_job(connection, NewJob("stamp", {"i": number}))

    def close(self) -> None:
        """Close the pool."""
        self._loop.run(self._database.close())
        self._loop.close()


def open_submitter(url: str) -> StampSubmitter:
    """A client with connections of its own."""
    return StampSubmitter(url)


def run_worker(url: str, concurrency: int) -> None:
    """The worker as `mediamill worker` runs it."""
    import uvloop

    sys.path.append(str(PLUGIN))
    os.environ["PYTHONPATH"] = os.pathsep.join((str(PLUGIN), str(ROOT)))
    run.Sandbox = CountedSandbox  # type: ignore[misc]
    uvloop.run(_work(url))


class CountedSandbox(Sandbox):
    """A child reaches no tally, so its runs are counted here, when they have ended."""

    async def run(self, *given: Any, **named: Any) -> ProcessorOutput:
        """One job in a child."""
        output = await super().run(*given, **named)
        bodies.run_noop()
        return output


async def _work(url: str) -> None:
    database = await Database.open(url)
    with tempfile.TemporaryDirectory() as folder:
        engine, plan = Engine(kinds=KINDS), WorkerPlan(data_folder=Path(folder))
        await Worker(LocalHome(database, engine, plan), engine, plan).run()


def count_unfinished(url: str) -> int:
    """Finished jobs leave the hot table."""
    return fetch_number(url, "select count(*) from jobs")


def fill_finished(url: str, count: int) -> None:
    """Rows as a finish leaves them."""
    execute(
        url,
        "insert into finished_jobs (id, kind, pool, owner, priority, attempts, worker_id, worker_name, created_at,"
        " started_at) select -i, 'noop', 'default', 'default', 1, 1, 1, 'worker', now(), now()"
        f" from generate_series(1, {count}) i",
        "vacuum analyze finished_jobs",
    )


def fill_waiting(url: str, count: int) -> None:
    """Rows as enqueue leaves them."""
    execute(
        url,
        "insert into jobs (kind, pool, owner, priority, state, payload, max_attempts)"
        " select 'noop', 'default', 'default', 1, 'queued', jsonb_build_object('i', i), 3"
        f" from generate_series(1, {count}) i",
        "vacuum analyze jobs",
    )
