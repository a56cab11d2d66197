"""Where a worker's jobs come from and where their outcomes go. Local: the database. Remote: HTTP (remote_source)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mediamill import traces
from mediamill.db.connection import LOST, Database, RawConnection
from mediamill.engine import lease, settle
from mediamill.engine.claim import Claimer, claim_with_chores, connect_for_claims, connect_for_finishes
from mediamill.engine.model import ClaimedJob, Failure
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Elsewhere, Fate, Finish, Settled
from mediamill.engine.watch import depth_of_pool
from mediamill.staging.derivatives import keep_files
from mediamill.staging.inputs import drop_input, end_input, fetch_input
from mediamill.staging.kept import NewKept, keep_file, list_kept
from mediamill.storage.choose import Place

log = logging.getLogger(__name__)

T = TypeVar("T")


class Source(Protocol):
    """What the worker's loop needs; everything may raise one of `AWAY` while the other side is away."""

    async def claim(self, pool: Pool, amount: int) -> tuple[list[ClaimedJob], datetime | None]:
        """Jobs, or none and the time when the next scheduled one comes due."""

    async def finish(self, finishes: Sequence[Finish]) -> Settled:
        """Outcomes that are saved when this returns."""

    async def fail(self, job: ClaimedJob, failure: Failure, pool: Pool) -> Fate:
        """A failed attempt, and what became of the job."""

    async def reroute(self, elsewhere: Elsewhere) -> bool:
        """A job for the pool of its real type; False if the claim was lost."""

    async def report(self, job: ClaimedJob, pool: Pool, **progress: Any) -> None:
        """Progress; ClaimLostError if the claim was lost."""

    async def extend(self, jobs: Sequence[ClaimedJob], pool: Pool) -> set[int]:
        """Signs of life; the ids that are still held."""

    async def hand_back(self, jobs: Sequence[ClaimedJob]) -> None:
        """Unfinished jobs, for another worker."""

    async def depth(self, pool: Pool) -> int:
        """How many jobs of the pool wait; a large number is not counted to its end."""

    async def input(self, job: ClaimedJob) -> Path | None:
        """The file that the job is about, on this machine."""

    async def kept(self, job: ClaimedJob) -> dict[str, dict[str, Any]]:
        """The facts of what earlier attempts kept, by name."""

    async def keep(self, job: ClaimedJob, pool: Pool, new: NewKept) -> None:
        """Take a finished file away, for later attempts; ClaimLostError if the claim was lost."""

    async def keep_derivatives(
        self, job: ClaimedJob, folder: Path, files: Mapping[str, str]
    ) -> dict[str, dict[str, Any]]:
        """Move what a processor made from its scratch folder to where it is looked up by the job's result."""

    async def end_input(self, job: ClaimedJob, *, keep: bool = False) -> None:
        """The job has ended, and it is settled that it has: its file is not needed any more."""

    async def drop_input(self, job: ClaimedJob, *, give_up: bool) -> None:
        """The file of a job that is gone, or is dead for good (`give_up`): deleted unless a job names it."""

    async def close(self) -> None:
        """Let go of connections."""


class LocalSource:
    """Claims on one connection whose commits need not reach the disk, plain finishes on one whose must."""

    def __init__(self, database: Database, engine: Engine, claimer: Claimer, place: Place) -> None:
        self._database, self._place = database, place
        self._engine = engine
        self._claimer = claimer
        self._claims = _Session(lambda: connect_for_claims(database.url))
        self._finishes = _Session(lambda: connect_for_finishes(database.url))

    async def claim(self, pool: Pool, amount: int) -> tuple[list[ClaimedJob], datetime | None]:
        """See Source."""
        return await self._claims.use(
            lambda connection: claim_with_chores(
                self._database, connection, self._engine, self._claimer, pool, amount
            )
        )

    async def finish(self, finishes: Sequence[Finish]) -> Settled:
        """See Source. Kinds without hooks go together in one statement, the others in one transaction."""
        with traces.spans("settle", [finish.job.trace for finish in finishes], outcome="completed"):
            return await self._finish(finishes)

    async def _finish(self, finishes: Sequence[Finish]) -> Settled:
        worker_id, kinds = self._claimer.worker_id, self._engine.kinds
        plain = [finish for finish in finishes if kinds.find(finish.job.kind).is_plain]
        together = Settled()
        if plain:
            together = await self._finishes.use(
                lambda connection: settle.finish_plain_jobs(connection, worker_id, plain)
            )
        if len(plain) < len(finishes):
            others = [finish for finish in finishes if not kinds.find(finish.job.kind).is_plain]
            more = await settle.finish_jobs(self._database, self._engine, worker_id, others)
            together = Settled(together.done | more.done, together.lost | more.lost, more.failed)
        return together

    async def fail(self, job: ClaimedJob, failure: Failure, pool: Pool) -> Fate:
        """See Source."""
        with traces.span("settle", parent=job.trace, outcome="failed"):
            return await settle.fail_in_any_case(self._database, self._engine, job, failure, pool)

    async def reroute(self, elsewhere: Elsewhere) -> bool:
        """See Source."""
        async with self._database.transaction() as connection:
            return await settle.reroute_job(connection, self._engine, elsewhere)

    async def report(self, job: ClaimedJob, pool: Pool, **progress: Any) -> None:
        """See Source."""
        async with self._database.connection() as connection:
            await lease.report_on_job(
                connection, self._engine.kinds, job, lease_seconds=pool.lease_seconds, **progress
            )

    async def extend(self, jobs: Sequence[ClaimedJob], pool: Pool) -> set[int]:
        """See Source."""
        async with self._database.connection() as connection:
            return await lease.extend_leases(
                connection,
                [job.claim for job in jobs],
                worker_id=self._claimer.worker_id,
                lease_seconds=pool.lease_seconds,
            )

    async def hand_back(self, jobs: Sequence[ClaimedJob]) -> None:
        """See Source."""
        await settle.hand_back(self._database, self._engine, self._claimer.worker_id, jobs)

    async def depth(self, pool: Pool) -> int:
        """See Source."""
        async with self._database.connection() as connection:
            return await depth_of_pool(connection, pool.name)

    async def input(self, job: ClaimedJob) -> Path | None:
        """See Source."""
        return await fetch_input(self._database, self._place, json.loads(job.payload_json))

    async def kept(self, job: ClaimedJob) -> dict[str, dict[str, Any]]:
        """See Source."""
        async with self._database.connection() as connection:
            kept = await list_kept(connection, self._place, job.id)
        return {one.name: {**one.facts, "bytes": one.bytes} for one in kept}

    async def keep(self, job: ClaimedJob, pool: Pool, new: NewKept) -> None:
        """See Source."""
        await keep_file(self._database, self._place, job, new, pool.lease_seconds)

    async def keep_derivatives(
        self, job: ClaimedJob, folder: Path, files: Mapping[str, str]
    ) -> dict[str, dict[str, Any]]:
        """See Source."""
        return await keep_files(self._database, self._place, job, folder, files)

    async def end_input(self, job: ClaimedJob, *, keep: bool = False) -> None:
        """See Source."""
        if self._engine.kinds.find(job.kind).owns_input:
            try:
                await end_input(self._database, self._place, json.loads(job.payload_json), keep=keep)
            except LOST as error:  # the sweep of staged files tries again
                log.warning("the staged file of job %d cannot be deleted: %s", job.id, error)

    async def drop_input(self, job: ClaimedJob, *, give_up: bool) -> None:
        """See Source."""
        if self._engine.kinds.find(job.kind).owns_input:
            try:
                await drop_input(self._database, self._place, json.loads(job.payload_json), give_up=give_up)
            except LOST as error:  # the sweep of staged files tries again
                log.warning("the staged file of job %d cannot be deleted: %s", job.id, error)

    async def close(self) -> None:
        """See Source."""
        await self._claims.close()
        await self._finishes.close()


class _Session:
    """One connection, used by one call at a time, made anew after a failure."""

    def __init__(self, connect: Callable[[], Awaitable[RawConnection]]) -> None:
        self._connect = connect
        self._connection: RawConnection | None = None
        self._lock = asyncio.Lock()

    async def use(self, verb: Callable[[RawConnection], Awaitable[T]]) -> T:
        async with self._lock:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            try:
                return await verb(self._connection)
            except (*LOST, asyncio.CancelledError):
                self._connection.terminate()
                self._connection = None
                raise

    async def close(self) -> None:
        async with self._lock:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
