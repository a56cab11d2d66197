"""The ceiling: a hand-written loop in which one statement completes the last batch and claims the next.

Durable, keys are unique, LISTEN wakes it. No retries, fairness, cancelling, recovery or telemetry; it has no
`kill` phase, as nothing would ever claim the dead worker's jobs.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress

import asyncpg

from bench.engine import bodies
from bench.engine.peers import EVERY_PEER, LoopThread
from bench.engine.sql import execute, fetch_number

PHASES = EVERY_PEER
CONCURRENCY = 500  # jobs per statement
MAX_JOBS = None
ENQUEUE_BATCH = 2000
IDLE_POLL_SECONDS = 1.0

SCHEMA = """
create table job (
    id bigint generated always as identity primary key,
    kind text not null,
    key text,
    tenant integer not null default 0,
    queue text not null default 'default',
    priority smallint not null default 0,
    state smallint not null default 0, -- 0 waiting, 1 running, 2 finished
    attempt smallint not null default 0,
    claimed_by integer,
    lease_until timestamptz,
    payload jsonb not null default '{}',
    created_at timestamptz not null default now(),
    finished_at timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create unique index job_key on job (key) where key is not null;
create index job_ready on job (queue, priority, id) where state = 0;
create index job_running on job (claimed_by) where state = 1;
"""

ENQUEUE = """
with added as (
    insert into job (kind, key, payload)
    select $1, given.key, given.payload from unnest($2::text[], $3::jsonb[]) as given (key, payload)
    on conflict (key) where key is not null do nothing
    returning id
)
select count(*), pg_notify('job', '') from added
"""

# `materialized` matters: inlined, the planner may run the pick twice and claim more than the limit says
COMPLETE_AND_CLAIM = """
with completed as (
    update job set state = 2, finished_at = now(), lease_until = null
    where id = any($3::bigint[]) and claimed_by = $2 and state = 1
), picked as materialized (
    select id from job where queue = 'default' and state = 0
    order by priority, id limit $1 for update skip locked
)
update job set state = 1, attempt = attempt + 1, claimed_by = $2, lease_until = now() + interval '60 s'
from picked where job.id = picked.id
returning job.id, job.kind, job.payload
"""


def prepare(url: str) -> None:
    """Create the table and its indexes."""
    execute(url, SCHEMA)


def enqueue(url: str, kind: str, count: int) -> float:
    """Insert by unnest, 2,000 at a time, with a unique key each."""
    return asyncio.run(_enqueue(url, kind, count))


async def _enqueue(url: str, kind: str, count: int) -> float:
    connection = await asyncpg.connect(url)
    started = time.perf_counter()
    for first in range(0, count, ENQUEUE_BATCH):
        await _insert(connection, kind, range(first, min(count, first + ENQUEUE_BATCH)))
    seconds = time.perf_counter() - started
    await connection.close()
    return seconds


async def _insert(connection: asyncpg.Connection, kind: str, numbers: Iterable[int]) -> None:
    numbers = list(numbers)
    keys, payloads = [f"{kind}-{i}" for i in numbers], [json.dumps({"i": i}) for i in numbers]
    await connection.fetch(ENQUEUE, kind, keys, payloads)


class StampSubmitter:
    """Submits by the same statement, one job at a time."""

    def __init__(self, url: str) -> None:
        self._loop = LoopThread()
        self._connection = self._loop.run(asyncpg.connect(url))

    def send(self, number: int) -> None:
        """Insert one job."""
        self._loop.run(_insert(self._connection, "stamp", [number]))

    def close(self) -> None:
        """Close the connection."""
        self._loop.run(self._connection.close())
        self._loop.close()


def open_submitter(url: str) -> StampSubmitter:
    """A client with connections of its own."""
    return StampSubmitter(url)


def run_worker(url: str, concurrency: int) -> None:
    """Claim, run, and complete with the next claim."""
    import uvloop

    uvloop.run(_work(url, concurrency))


async def _work(url: str, batch: int) -> None:
    connection, listener = await asyncpg.connect(url), await asyncpg.connect(url)
    wake = asyncio.Event()
    await listener.add_listener("job", lambda *_: wake.set())
    done: list[int] = []
    while True:
        wake.clear()  # before the claim: a job that comes after it must wake us
        jobs = await connection.fetch(COMPLETE_AND_CLAIM, batch, os.getpid(), done)
        for _, kind, payload in jobs:
            await _run(kind, json.loads(payload))
        done = [job[0] for job in jobs]
        if not jobs:
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), IDLE_POLL_SECONDS)


async def _run(kind: str, payload: dict[str, int]) -> None:
    if kind == "noop":
        bodies.run_noop()
    elif kind == "stamp":
        bodies.run_stamp(payload["i"])
    else:
        await bodies.run_slow(payload["i"])


def count_unfinished(url: str) -> int:
    """Waiting or running."""
    return fetch_number(url, "select count(*) from job where state in (0, 1)")


def fill_finished(url: str, count: int) -> None:
    """Finished jobs stay in the table."""
    _fill(url, 2, "now()", count)


def fill_waiting(url: str, count: int) -> None:
    """Waiting no-op jobs."""
    _fill(url, 0, "null", count)


def _fill(url: str, state: int, finished_at: str, count: int) -> None:
    execute(
        url,
        "insert into job (kind, key, state, payload, finished_at)"
        f" select 'noop', 'old-' || i, {state}, '{{\"i\": 1}}', {finished_at}"
        f" from generate_series(1, {count}) i",
        "vacuum analyze job",
    )
