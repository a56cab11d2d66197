"""Claims on behalf of remote workers: what a local worker keeps in its own memory is kept here for them."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from mediamill.api.deps import Deps
from mediamill.db.connection import LOST, Connection, RawConnection
from mediamill.engine import settle, watch, workers
from mediamill.engine.claim import Claimer, claim_with_chores, connect_for_claims
from mediamill.engine.dead import UnknownJobError
from mediamill.engine.model import ClaimedJob
from mediamill.engine.pools import Pool, list_pools

MOST_CLAIMERS = 10_000
SAME = ("id", "kind", "pool", "owner", "subject_id", "mime_type", "attempts", "max_attempts")


class Shown(Protocol):
    """What a worker shows of its claim."""

    job_id: int
    token: int


class ClaimDesk:
    """One connection for all remote claims, and for each worker the owners that it served last."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._claimers: OrderedDict[int, Claimer] = OrderedDict()
        self._connection: RawConnection | None = None
        self._lock = asyncio.Lock()

    async def claim(
        self, worker_id: int, names: Sequence[str], amount: int
    ) -> tuple[list[tuple[ClaimedJob, Pool]], datetime | None]:
        """Up to `amount` jobs, pool after pool; only pools whose processor can run anywhere. And the next due time."""
        async with self._deps.database.connection() as connection:
            worker = await workers.show_worker(connection, worker_id)
            pools = [pool for pool in await list_pools(connection) if pool.processor is not None]
        allowed = (
            set(worker["pools"]) & set(names) if worker["pools"] and names else set(worker["pools"] or names)
        )
        claimed: list[tuple[ClaimedJob, Pool]] = []
        due_at: datetime | None = None
        for pool in pools:
            if len(claimed) < amount and (pool.name in allowed or not (worker["pools"] or names)):
                jobs, due_at = await self._claim(self._claimer(worker), pool, amount - len(claimed))
                claimed += [(job, pool) for job in jobs]
        return claimed, due_at

    def _claimer(self, worker: dict[str, Any]) -> Claimer:
        engine, id_ = self._deps.engine, worker["id"]
        claimer = self._claimers.pop(id_, None) or Claimer(
            id_, worker["name"], engine.kinds, gpu=worker["gpu"], heartbeat_seconds=engine.heartbeat_seconds
        )
        self._claimers[id_] = claimer
        if len(self._claimers) > MOST_CLAIMERS:
            self._claimers.popitem(last=False)
        return claimer

    async def _claim(
        self, claimer: Claimer, pool: Pool, amount: int
    ) -> tuple[list[ClaimedJob], datetime | None]:
        database, engine = self._deps.database, self._deps.engine
        async with self._lock:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect_for_claims(database.url)
            try:
                jobs, due_at = await claim_with_chores(
                    database, self._connection, engine, claimer, pool, amount
                )
            except (*LOST, asyncio.CancelledError):
                self._drop()
                raise
        # A kind that runs beside the database cannot run elsewhere, whatever pool it was put into.
        bound = [job for job in jobs if engine.kinds.find(job.kind).handler is not None]
        if bound:
            await self.hand_back(claimer.worker_id, bound)
        return [job for job in jobs if job not in bound], due_at

    async def hand_back(self, worker_id: int, jobs: Sequence[ClaimedJob]) -> None:
        """Jobs that were claimed for nothing; the attempts do not count."""
        await settle.hand_back(self._deps.database, self._deps.engine, worker_id, jobs)

    async def check_instance(self, worker_id: int, instance: str | None) -> None:
        """Is it still this process that the worker's key speaks for?"""
        async with self._deps.database.connection() as connection:
            workers.check_instance(await workers.show_worker(connection, worker_id), instance)

    def for_wire(self, job: ClaimedJob, pool: Pool) -> dict[str, Any]:
        """What a remote worker needs to run a job."""
        return {
            **{name: getattr(job, name) for name in ("token", *SAME)},
            "trace": job.trace,
            "payload": json.loads(job.payload_json),
            "checkpoint": None if job.checkpoint_json is None else json.loads(job.checkpoint_json),
            "keeps_files": self._deps.engine.kinds.find(job.kind).keeps_files,
            "processor": pool.processor,
            "timeout_seconds": pool.timeout_seconds,
            "lease_seconds": pool.lease_seconds,
            "memory_bytes": pool.memory_bytes,
        }

    def close(self) -> None:
        """Let go of the connection."""
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


async def holds(
    connection: Connection, worker_id: int, claims: Sequence[Shown]
) -> dict[Pool, list[ClaimedJob]]:
    """The shown claims by pool, as far as their jobs are still there. Whether they hold, the verbs decide."""
    pools = {pool.name: pool for pool in await list_pools(connection)}
    found: dict[Pool, list[ClaimedJob]] = {}
    for claim in claims:
        try:
            row = await watch.show_job(connection, claim.job_id)
        except UnknownJobError:
            continue
        if row["state"] == "running":
            pool = pools.get(row["pool"]) or next(pool for pool in pools.values() if not pool.matches)
            found.setdefault(pool, []).append(_claimed(row, worker_id, claim.token))
    return found


def _claimed(row: dict[str, Any], worker_id: int, token: int) -> ClaimedJob:
    return ClaimedJob(
        **{name: row[name] for name in SAME},
        token=token,
        worker_id=worker_id,
        payload_json=json.dumps(row["payload"]),
        checkpoint_json=None,
    )
