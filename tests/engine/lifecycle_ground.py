"""The ground under the lifecycle machine: the database that examples share, workers with real sessions, the check."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from mediamill.db.connection import Connection, Database, RawConnection, connect
from mediamill.engine import store
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import ClaimedJob, NewJob, State
from mediamill.engine.pools import Pool, list_pools
from mediamill.engine.rules import Engine
from mediamill.engine.workers import register_worker, take_session_lock
from tests.conftest import wait_until
from tests.engine.conftest import KINDS
from tests.engine.lifecycle_model import SUBJECT, Model, ModelJob, ModelWorker, Transition

T = TypeVar("T")

TABLES = (
    "jobs, finished_jobs, dead_jobs, job_keys, held_owners, worker_keys, workers, events, throughput, counters, "
    "attempts, subjects, deliveries"
)
WHERE_EVERY_JOB_IS = """
    select id, state, attempts, token, worker_id, lease_expires_at > now() as leased from jobs
    union all select id, 'finished', attempts, null, worker_id, null from finished_jobs
    union all select id, 'dead', attempts, token, worker_id, null from dead_jobs
"""
EVERY_CLAIM = """
    select coalesce((select sum(count) from attempts), 0)
        + (select count(*) from jobs where state = 'running') as claims
"""


@dataclass
class World:
    """What all examples share: the loop, the database, the engine, and the moves that were seen."""

    runner: asyncio.Runner
    database: Database
    engine: Engine
    pool: Pool
    eye: RawConnection
    seen: set[Transition] = field(default_factory=set)

    @classmethod
    async def make(cls, runner: asyncio.Runner, url: str) -> World:
        database = await Database.open(url, connections=5)
        async with database.connection() as connection:
            await connection.execute(
                "create table subjects (id text primary key, status text, history text[])"
            )
            await connection.execute("create table deliveries (job_id bigint primary key, result text)")
            # Back-off ends when the machine says so, not when the clock does.
            await connection.execute("update pools set backoff_seconds = 3600, backoff_limit_seconds = 7200")
            (pool,) = [pool for pool in await list_pools(connection) if pool.name == "default"]
        engine = Engine(kinds=Kinds(KINDS), startup_grace_seconds=0, session_grace_seconds=0)
        return cls(runner, database, engine, pool, await connect(url))

    async def close(self) -> None:
        await self.eye.close()
        await self.database.close()


class Ground(RuleBasedStateMachine):
    """What the rules stand on."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.database, self.engine, self.pool = world.database, world.engine, world.pool
        self.enqueuer = Enqueuer(self.engine.kinds)
        self.model = Model(world.seen)
        self.subjects = 0
        self.claims: list[ClaimedJob] = []
        self.sessions: dict[ModelWorker, RawConnection] = {}
        self.claimers: dict[ModelWorker, Claimer] = {}

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.world.runner.run(doing)

    def do(self, what: Callable[[Connection], Awaitable[T]]) -> T:
        """One transaction."""

        async def doing() -> T:
            async with self.database.transaction() as connection:
                return await what(connection)

        return self.run(doing())

    def sql(self, statement: str, *args: Any) -> Any:
        """A look, or a push at the clock, from outside."""
        return self.run(self.world.eye.fetch(statement, *args))

    # --- workers ---

    def start_worker(self, name: str, *, local: bool) -> ModelWorker:
        type_ = "local" if local else "remote"
        id_ = self.do(lambda connection: register_worker(connection, name=name, type_=type_))
        worker = ModelWorker(id_, name, local)
        self.model.workers.append(worker)
        self.claimers[worker] = Claimer(id_, name, self.engine.kinds)
        if local:
            self.open_session(worker)
        return worker

    def open_session(self, worker: ModelWorker) -> None:
        async def opening() -> RawConnection:
            connection = await connect(self.database.url)
            await take_session_lock(connection, worker.id)
            return connection

        self.sessions[worker] = self.run(opening())
        worker.locked = True
        if worker.state == "offline":
            worker.state = "active"  # the lock is a sign of life

    def cut_session(self, worker: ModelWorker) -> None:
        """The connection is gone without a word; returns when the server has noticed."""

        async def unlocked() -> bool:
            async with self.database.connection() as connection:
                return not await connection.fetchval(
                    "select exists (select from pg_locks where locktype = 'advisory' and classid = $1 and objid = $2"
                    " and database = (select oid from pg_database where datname = current_database()))",
                    store.WORKER_LOCKS,
                    worker.id,
                )

        async def cutting() -> None:
            self.sessions.pop(worker).terminate()
            await wait_until(unlocked)

        self.run(cutting())
        worker.locked = False

    def teardown(self) -> None:
        for worker in list(self.sessions):
            self.cut_session(worker)

    # --- jobs ---

    def new_job(self, given: dict[str, Any], key: str | None = None) -> NewJob:
        self.subjects += 1
        return NewJob(
            kind=given["kind"],
            owner=given["owner"],
            priority=given["priority"],
            max_attempts=given["max_attempts"],
            payload={"refuse": given["refuse"]},
            subject_id=f"subject {self.subjects}",
            run_after=datetime.now(UTC) + timedelta(hours=1) if given["later"] else None,
            idempotency_key=key,
        )

    def model_job(self, id_: int, new: NewJob) -> ModelJob:
        assert new.max_attempts is not None
        return ModelJob(
            id=id_,
            kind=new.kind,
            owner=new.owner,
            priority=int(new.priority),
            max_attempts=new.max_attempts,
            due=new.run_after is None,
            refuse=new.payload["refuse"],
            subject=str(new.subject_id),
        )

    def claims_held(self) -> list[ClaimedJob]:
        return [claim for claim in self.claims if self.model.holds(claim, by_lease=False)]

    def claims_lost(self) -> list[ClaimedJob]:
        """Those whose job is in other hands now, if there are any: there a late word could do harm."""
        lost = [claim for claim in self.claims if not self.model.holds(claim, by_lease=False)]
        taken_over = [claim for claim in lost if self.model.jobs[claim.id].state is State.RUNNING]
        return taken_over or lost

    def pick_claim(self, pick: int, *, late: bool) -> ClaimedJob:
        first, second = self.claims_held(), self.claims_lost()
        choice = (second or first) if late else (first or second)
        return choice[pick % len(choice)]

    # --- the check after each step ---

    def compare(self) -> None:
        """The database says what the model says."""
        rows = self.sql(WHERE_EVERY_JOB_IS)
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows), "a job is in two places"
        expected = {(job.id, str(job.state)) for job in self.model.jobs.values() if job.state is not None}
        actual = {(id_, row["state"]) for id_, row in found.items()}
        assert actual == expected, f"should be {expected - actual}, but are {actual - expected}"
        for id_, row in found.items():
            job = self.model.jobs[id_]
            assert row["attempts"] == job.attempts
            if job.holder is not None:
                assert (row["token"], row["worker_id"]) == (job.token, job.holder.id), "two hands on one job"
                assert row["leased"] == (job.lease == "good")
        self._compare_subjects()
        (counted,) = self.sql(EVERY_CLAIM)
        assert counted["claims"] == len(self.claims), "a claim was not counted, or twice"

    def _compare_subjects(self) -> None:
        told = {row["id"]: (row["status"], row["history"]) for row in self.sql("select * from subjects")}
        jobs = [job for job in self.model.jobs.values() if job.kind == SUBJECT and job.history]
        expected = {job.subject: (job.history[-1], job.history) for job in jobs}
        assert told == expected, f"subjects do not agree with their jobs: {told} {expected}"
        delivered = [row["job_id"] for row in self.sql("select job_id from deliveries")]
        assert set(delivered) == self.model.delivered
