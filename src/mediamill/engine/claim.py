"""Claim: take waiting jobs into a worker's hands, fairly, never one twice.

The algorithm is told at `claim_jobs` in queries/jobs.sql. A claim need not reach the disk before the work
begins: one that is lost with a crash is only claimed again, and its token no longer fits.
"""

from __future__ import annotations

import logging
import time
import traceback
from dataclasses import dataclass, field
from datetime import datetime

from mediamill.db.connection import ASK_AGAIN, Connection, Database, RawConnection, connect
from mediamill.engine import store
from mediamill.engine.kinds import Kinds, call_hooks
from mediamill.engine.model import ClaimedJob, Failure, failure_of
from mediamill.engine.pools import Pool
from mediamill.engine.recovery.stragglers import hold_stragglers
from mediamill.engine.recovery.sweep import do_waiting_chores
from mediamill.engine.rules import Engine
from mediamill.engine.settle import fail_job

log = logging.getLogger(__name__)

OWNER_WINDOW = 256

# The plan of the hot statements must not depend on what the statistics happened to say when they were first
# planned: a claim hops through the ready index, a finish looks its batch up by id and joins by hash.
PLAIN_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "enable_memoize": "off",
}


async def connect_for_claims(url: str) -> RawConnection:
    """A connection for claims. They need not reach the disk: one that is lost is only claimed again."""
    return await connect(
        url, name="mediamill claims", synchronous_commit="off", enable_hashjoin="off", **PLAIN_SETTINGS
    )


async def connect_for_finishes(url: str) -> RawConnection:
    """A connection for plain finishes. What was told as done is on the disk."""
    return await connect(
        url, name="mediamill finishes", synchronous_commit="on", enable_nestloop="off", **PLAIN_SETTINGS
    )


@dataclass(slots=True)
class Claimer:
    """One worker's claims. Remembers the owner that it served last in each pool."""

    worker_id: int
    worker_name: str
    kinds: Kinds
    gpu: bool = False
    heartbeat_seconds: float = 30
    last_owners: dict[str, str] = field(default_factory=dict)
    looked_at: float = 0.0

    async def claim_jobs(self, connection: Connection, pool: Pool, amount: int) -> list[ClaimedJob]:
        """Up to `amount` jobs of a pool, oldest first, owners in turn."""
        if amount < 1 or await self._leave_to_gpu(connection, pool):
            return []
        if not self.kinds.watch_claims:
            return await self._claim(connection, pool, amount)
        async with connection.transaction():
            jobs = await self._claim(connection, pool, amount)
            return await self._tell_all(connection, pool, jobs)

    async def _claim(self, connection: Connection, pool: Pool, amount: int) -> list[ClaimedJob]:
        rows = await store.jobs.claim_jobs.rows(
            connection,
            pool=pool.name,
            amount=amount,
            last_owner=self.last_owners.get(pool.name, ""),
            owner_window=OWNER_WINDOW,
            worker_id=self.worker_id,
            worker_name=self.worker_name,
            lease_seconds=pool.lease_seconds,
        )
        jobs = [store.claimed_job(row, pool.name, self.worker_id) for row in rows]
        if jobs:
            self.last_owners[pool.name] = jobs[-1].owner
        return jobs

    async def _tell_all(self, connection: Connection, pool: Pool, jobs: list[ClaimedJob]) -> list[ClaimedJob]:
        """The jobs whose subjects are told. One that refuses has failed this attempt, and is in nobody's way."""
        if not any(self.kinds.find(job.kind).on_claimed for job in jobs):
            return jobs
        try:
            async with connection.transaction():
                await self._tell(connection, jobs)
            return jobs
        except ASK_AGAIN:
            raise
        except Exception as error:
            if len(jobs) == 1:
                log.exception("the subject of job %d (%s) refuses to be claimed", jobs[0].id, jobs[0].kind)
                await self._fail(connection, pool, jobs[0], failure_of(error, traceback.format_exc()))
                return []
        return [job for one in jobs for job in await self._tell_all(connection, pool, [one])]

    async def _fail(self, connection: Connection, pool: Pool, job: ClaimedJob, failure: Failure) -> None:
        try:
            async with connection.transaction():
                await fail_job(connection, Engine(self.kinds), job, failure, pool)
        except ASK_AGAIN:
            raise
        except Exception:  # a subject that refuses everything: the job moves without it
            await fail_job(connection, Engine(), job, failure, pool)

    async def _tell(self, connection: Connection, jobs: list[ClaimedJob]) -> None:
        rows = await store.jobs.lock_claims.rows(
            connection,
            ids=[job.id for job in jobs],
            tokens=[job.token for job in jobs],
            worker_id=self.worker_id,
        )
        await call_hooks(connection, self.kinds, "on_claimed", [store.moved(row) for row in rows])

    async def _leave_to_gpu(self, connection: Connection, pool: Pool) -> bool:
        if not pool.gpu or self.gpu:
            return False
        return bool(
            await store.workers.is_gpu_idle.value(
                connection,
                worker_id=self.worker_id,
                pool=pool.name,
                heartbeat_seconds=self.heartbeat_seconds,
            )
        )


CHORES_SECONDS = 1.0


async def claim_with_chores(
    database: Database, connection: Connection, engine: Engine, claimer: Claimer, pool: Pool, amount: int
) -> tuple[list[ClaimedJob], datetime | None]:
    """A claim as every worker makes it: with a look at what is expired, exhausted or due, once a second at most.

    An empty claim looks in any case, and claims again if something was put right. With the jobs comes the time
    when the next scheduled one is due.
    """
    due_at = None
    if time.monotonic() - claimer.looked_at >= CHORES_SECONDS:
        due_at = await do_waiting_chores(database, engine)
        claimer.looked_at = time.monotonic()
    jobs = await claimer.claim_jobs(connection, pool, amount)
    if jobs or amount < 1:
        return jobs, due_at
    due_at = await do_waiting_chores(database, engine)
    if await store.jobs.is_waiting.value(connection, pool=pool.name):
        async with database.transaction() as other:
            await hold_stragglers(other, engine)
        jobs = await claimer.claim_jobs(connection, pool, amount)
    return jobs, due_at
