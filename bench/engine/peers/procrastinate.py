"""procrastinate on psycopg, by its public calls."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.engine import bodies
from bench.engine.peers import EVERY_PEER, LoopThread
from bench.engine.sql import execute, fetch_number

PHASES = EVERY_PEER | {"kill"}
CONCURRENCY = 8
MAX_JOBS = 1000  # it takes each job by itself, some 600/s: the rate is clear long before 20,000
ENQUEUE_BATCH = 1000
MOST_CONNECTIONS = 60


def _build_app(url: str, connections: int) -> App:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=connections))

    @app.task(name="noop")
    async def noop() -> None:
        bodies.run_noop()

    @app.task(name="stamp")
    async def stamp(i: int) -> None:
        bodies.run_stamp(i)

    @app.task(name="slow")
    async def slow(i: int) -> None:
        await bodies.run_slow(i)

    return app


def prepare(url: str) -> None:
    """Its own schema."""
    asyncio.run(_apply_schema(url))


async def _apply_schema(url: str) -> None:
    app = _build_app(url, 2)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


def enqueue(url: str, kind: str, count: int) -> float:
    """`batch_defer`, 1,000 at a time."""
    return asyncio.run(_enqueue(url, kind, count))


async def _enqueue(url: str, kind: str, count: int) -> float:
    app = _build_app(url, 2)
    async with app.open_async():
        started = time.perf_counter()
        arguments: list[dict[str, Any]] = [{} if kind == "noop" else {"i": i} for i in range(count)]
        for first in range(0, count, ENQUEUE_BATCH):
            await app.configure_task(kind).batch_defer_async(*arguments[first : first + ENQUEUE_BATCH])
        return time.perf_counter() - started


class StampSubmitter:
    """Submits by `defer`."""

    def __init__(self, url: str) -> None:
        self._loop = LoopThread()
        self._app = _build_app(url, 2)
        self._loop.run(self._open())
        self._stamp = self._app.configure_task("stamp")

    async def _open(self) -> None:
        await self._app.open_async()

    def send(self, number: int) -> None:
        """Defer one job."""
        self._loop.run(self._stamp.defer_async(i=number))

    def close(self) -> None:
        """Close the connector."""
        self._loop.run(self._app.close_async())
        self._loop.close()


def open_submitter(url: str) -> StampSubmitter:
    """A client with connections of its own."""
    return StampSubmitter(url)


def run_worker(url: str, concurrency: int) -> None:
    """Its worker, with a connection per running job, one for LISTEN and one for fetching."""
    asyncio.run(_work(url, concurrency))


async def _work(url: str, concurrency: int) -> None:
    app = _build_app(url, min(concurrency, MOST_CONNECTIONS) + 2)
    async with app.open_async():
        await app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)


def count_unfinished(url: str) -> int:
    """Waiting or running."""
    return fetch_number(url, "select count(*) from procrastinate_jobs where status in ('todo', 'doing')")


def fill_finished(url: str, count: int) -> None:
    """Finished jobs stay in the table."""
    _fill(url, "succeeded", 1, count)


def fill_waiting(url: str, count: int) -> None:
    """Waiting no-op jobs."""
    _fill(url, "todo", 0, count)


def _fill(url: str, status: str, attempts: int, count: int) -> None:
    # the triggers are off because they would write an event and notify for each row
    execute(
        url,
        "alter table procrastinate_jobs disable trigger user",
        "insert into procrastinate_jobs (queue_name, task_name, status, args, attempts)"
        f" select 'default', 'noop', '{status}', '{{}}', {attempts} from generate_series(1, {count})",
        "alter table procrastinate_jobs enable trigger user",
        "vacuum analyze procrastinate_jobs",
    )
