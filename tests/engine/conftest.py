"""A small engine on a fresh database: kinds that record what happens to their subjects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from mediamill.db.connection import Connection, Database
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds, Run
from mediamill.engine.model import ClaimedJob, Failure, Moved, NewJob
from mediamill.engine.pools import Pool, list_pools
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Fate, Finish, Settled, fail_job, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.errors import RetryLaterError

# What PostgreSQL says to one of two transactions that wait for each other.
DEADLOCK = (
    "do $$ begin raise exception using errcode = 'deadlock_detected', message = 'deadlock detected'; end $$"
)


async def _do_nothing(_run: Run) -> None:
    return None


def _recorder(what: str) -> Any:
    async def record(connection: Connection, moved: Sequence[Moved]) -> None:
        for job in moved:
            if job.payload.get("refuse") == what:
                raise RuntimeError(f"the subject refuses to be {what}")
            if job.payload.get("meet") == what:
                await connection.execute(DEADLOCK)
            await connection.execute(
                "insert into subjects (id, status, history) values ($1, $2::text, array[$2::text]) "
                "on conflict (id) do update set status = $2::text, history = subjects.history || $2::text",
                job.subject_id,
                what,
            )

    return record


async def _deliver(connection: Connection, moved: Sequence[Moved]) -> None:
    for job in moved:
        if job.payload.get("refuse") == "delivery":
            raise RuntimeError("nobody takes this")
        if job.payload.get("refuse") == "for now":
            raise RetryLaterError("not now")
        await connection.execute(
            "insert into deliveries (job_id, result) values ($1, $2)", job.job_id, str(job.result)
        )


KINDS = (
    JobKind("test.plain", handler=_do_nothing),
    JobKind(
        "test.subject",
        handler=_do_nothing,
        on_claimed=_recorder("claimed"),
        on_completed=_recorder("completed"),
        on_failed=_recorder("failed"),
        on_released=_recorder("released"),
    ),
    JobKind("test.delivered", handler=_do_nothing, deliver=_deliver),
    JobKind("test.processed"),
)


@dataclass
class Bench:
    """An engine, and the verbs in the form that tests want."""

    database: Database
    engine: Engine
    enqueuer: Enqueuer
    pools: dict[str, Pool] = field(default_factory=dict)
    claimers: dict[str, Claimer] = field(default_factory=dict)

    async def enqueue(self, kind: str = "test.plain", **more: Any) -> int:
        async with self.database.transaction() as connection:
            return await self.enqueuer.enqueue_job(connection, NewJob(kind, **more))

    async def worker(self, name: str = "a", **more: Any) -> Claimer:
        if name not in self.claimers:
            async with self.database.connection() as connection:
                id_ = await register_worker(connection, name=name, **more)
            self.claimers[name] = Claimer(id_, name, self.engine.kinds)
        return self.claimers[name]

    async def pool(self, name: str = "default") -> Pool:
        async with self.database.connection() as connection:
            self.pools = {pool.name: pool for pool in await list_pools(connection)}
        return self.pools[name]

    async def claim(self, worker: str = "a", amount: int = 1, pool: str = "default") -> list[ClaimedJob]:
        claimer = await self.worker(worker)
        async with self.database.connection() as connection:
            return await claimer.claim_jobs(connection, await self.pool(pool), amount)

    async def finish(self, *jobs: ClaimedJob, result: str | None = None) -> Settled:
        return await finish_jobs(
            self.database, self.engine, jobs[0].worker_id, [Finish(job, result) for job in jobs]
        )

    async def fail(self, job: ClaimedJob, error: str = "no", permanent: bool = False, **more: Any) -> Fate:
        async with self.database.transaction() as connection:
            pool = await self.pool(job.pool)
            return await fail_job(connection, self.engine, job, Failure(error, permanent, **more), pool)

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def run(self, sql: str, *args: Any) -> None:
        async with self.database.connection() as connection:
            await connection.execute(sql, *args)

    async def state(self, job_id: int) -> str | None:
        state = await self.one("select state from jobs where id = $1", job_id)
        if state is None and await self.one("select true from finished_jobs where id = $1", job_id):
            return "finished"
        if state is None and await self.one("select true from dead_jobs where id = $1", job_id):
            return "dead"
        return None if state is None else str(state)

    async def subject(self, id_: str) -> str | None:
        status = await self.one("select status from subjects where id = $1", id_)
        return None if status is None else str(status)

    async def expire(self, job_id: int, seconds: float = 1) -> None:
        await self.run(
            "update jobs set lease_expires_at = now() - make_interval(secs => $2) where id = $1",
            job_id,
            seconds,
        )


@pytest.fixture
async def bench(database: Database) -> Bench:
    """The engine under test."""
    engine = Engine(kinds=Kinds(KINDS), startup_grace_seconds=0)
    bench = Bench(database, engine, Enqueuer(engine.kinds))
    await bench.run("create table subjects (id text primary key, status text, history text[])")
    await bench.run("create table deliveries (job_id bigint primary key, result text)")
    return bench
