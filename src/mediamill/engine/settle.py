"""Settle: a job ends, or goes back, together with its subject, in one transaction, for the holder of its claim only."""

from __future__ import annotations

import enum
import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from asyncpg import Record

from mediamill.db.connection import ASK_AGAIN, Connection, Database
from mediamill.engine import store
from mediamill.engine.alerts import alert_of_deaths, note_failures
from mediamill.engine.attempts import Outcome, tally
from mediamill.engine.kinds import Kinds, call_hooks
from mediamill.engine.model import (
    MAX_ATTEMPTS_EXHAUSTED,
    ClaimedJob,
    Failure,
    Moved,
    State,
    backoff_seconds,
    failure_of,
    without_nul,
)
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.errors import GiveUpError, Wait
from mediamill.logs import tell

log = logging.getLogger(__name__)

NOT_NOW = "not_now"  # the reason of a job that was put off


class ResultTooLargeError(GiveUpError):
    """The result is too large; write it to a file."""

    code = "result_too_large"


@dataclass(slots=True)
class Finish:
    """A job that was done, and its result as JSON text."""

    job: ClaimedJob
    result_json: str | None = None


@dataclass(slots=True)
class Elsewhere:
    """A job whose file is really of this type, which another pool may serve."""

    job: ClaimedJob
    mime_type: str


@dataclass(slots=True)
class Settled:
    """What became of a batch: settled, lost to another holder, or failed in its own hook."""

    done: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    failed: dict[int, Failure] = field(default_factory=dict)


def encode_result(engine: Engine, result: Any) -> str | None:
    """A result as JSON text; too large is a permanent failure."""
    if result is None:
        return None
    text = without_nul(msgspec.json.encode(result, enc_hook=str))
    if len(text) > engine.payload_limit_bytes:
        raise ResultTooLargeError(
            f"the result has {len(text)} bytes, the limit is {engine.payload_limit_bytes}"
        )
    return text.decode()


async def finish_plain_jobs(connection: Connection, worker_id: int, finishes: Sequence[Finish]) -> Settled:
    """Jobs whose kinds have no hooks: one statement for all of them."""
    rows = await store.jobs.finish_jobs.rows(connection, **_arrays(worker_id, finishes))
    done = {row[0] for row in rows}
    settled = Settled(done, {finish.job.id for finish in finishes} - done)
    if settled.lost:
        await warn_of_missing(
            connection, [finish.job for finish in finishes if finish.job.id in settled.lost]
        )
    return settled


async def finish_jobs(
    database: Database, engine: Engine, worker_id: int, finishes: Sequence[Finish]
) -> Settled:
    """Any jobs, in one transaction; if a hook of one fails, each in its own, so that its neighbours do not suffer."""
    try:
        async with database.transaction() as connection:
            return await _finish(connection, engine, worker_id, finishes)
    except ASK_AGAIN:
        raise
    except Exception as error:
        if len(finishes) == 1:
            tell(log, "settle_failed", error=error, job_id=finishes[0].job.id)
            return Settled(failed={finishes[0].job.id: failure_of(error, traceback.format_exc())})
    together = Settled()
    for finish in finishes:
        alone = await finish_jobs(database, engine, worker_id, [finish])
        together.done |= alone.done
        together.lost |= alone.lost
        together.failed |= alone.failed
    return together


async def _finish(
    connection: Connection, engine: Engine, worker_id: int, finishes: Sequence[Finish]
) -> Settled:
    arrays = _arrays(worker_id, finishes)
    results = dict(zip(arrays["ids"], arrays["results"], strict=True))
    rows = await store.jobs.lock_claims.rows(
        connection, ids=arrays["ids"], tokens=arrays["tokens"], worker_id=worker_id
    )
    held = {row["id"] for row in rows}
    saved = [finish for finish in finishes if finish.job.id in held and _delivers(engine, finish)]
    ended = [finish for finish in finishes if finish.job.id in held and not _delivers(engine, finish)]
    ended_ids = {finish.job.id for finish in ended}
    moved = [store.moved(row, result=_decode(results[row["id"]])) for row in rows if row["id"] in ended_ids]
    await call_hooks(connection, engine.kinds, "on_completed", moved)
    if ended:
        await store.jobs.finish_jobs.rows(connection, **_arrays(worker_id, ended))
    if saved:
        await store.jobs.save_results.rows(connection, **_arrays(worker_id, saved))
    lost = {finish.job.id for finish in finishes} - held
    await warn_of_missing(connection, [finish.job for finish in finishes if finish.job.id in lost])
    return Settled(held, lost)


class Fate(enum.IntEnum):
    """What became of a job whose attempt failed. False in a condition: it was not ours any more."""

    LOST = 0
    AGAIN = 1
    DEAD = 2


async def fail_job(
    connection: Connection, engine: Engine, job: ClaimedJob, failure: Failure, pool: Pool
) -> Fate:
    """A failed attempt, in the caller's transaction: another try, or the dead letter."""
    rows = await store.jobs.lock_claims.rows(
        connection, ids=[job.id], tokens=[job.token], worker_id=job.worker_id
    )
    if not rows:
        await warn_of_missing(connection, [job])
        return Fate.LOST
    row = rows[0]
    if failure.wait is not None and _may_wait(engine, row, failure.wait, pool):
        await _put_off(connection, engine, row, failure, failure.wait)
        return Fate.AGAIN
    await store.recovery.count.run(connection, name="failures", amount=1)
    exhausted = row["attempts"] >= row["max_attempts"]
    if failure.permanent or exhausted or not pool.retry:
        reason = "permanent" if failure.permanent else MAX_ATTEMPTS_EXHAUSTED if exhausted else "no_retry"
        await bury_jobs(connection, engine, [row], reason, failure)
        return Fate.DEAD
    await tally(connection, Outcome.FAILED, rows)
    wait = backoff_seconds(row["attempts"], pool.backoff_seconds, pool.backoff_limit_seconds)
    await store.jobs.retry_job.run(connection, id=job.id, wait_seconds=wait, error=failure.short)
    await call_hooks(connection, engine.kinds, "on_released", [_told(row, "retry", failure.short)])
    await note_failures(connection, engine, rows)
    tell(
        log,
        "job_retry",
        **_who(row),
        attempt=row["attempts"],
        attempts=row["max_attempts"],
        reason=failure.short,
    )
    return Fate.AGAIN


async def fail_in_any_case(
    database: Database, engine: Engine, job: ClaimedJob, failure: Failure, pool: Pool
) -> Fate:
    """The same in its own transaction. A subject that refuses even this does not keep its job: it moves without it."""
    try:
        async with database.transaction() as connection:
            return await fail_job(connection, engine, job, failure, pool)
    except ASK_AGAIN:
        raise
    except Exception:
        log.exception("job %d (%s): its subject could not be told of the failure", job.id, job.kind)
    async with database.transaction() as connection:
        return await fail_job(connection, replace(engine, kinds=Kinds()), job, failure, pool)


def _may_wait(engine: Engine, row: Record, wait: Wait, pool: Pool) -> bool:
    """Files and folders are waited for without end, a model server only for a while; then the attempt counts."""
    if wait.server is None:
        return True
    awaited = wait.suspect or engine.kinds.find(row["kind"]).awaited
    most = pool.timeout_seconds if awaited else engine.model_wait_hours * 3600
    return bool((row["waited_seconds"] or 0) + wait.seconds < most)


async def _put_off(connection: Connection, engine: Engine, row: Record, failure: Failure, wait: Wait) -> None:
    """What it needs is not there: it waits, however often, and the attempt is given back."""
    await tally(connection, Outcome.PUT_OFF, [row])
    await store.jobs.put_off_job.run(
        connection, id=row["id"], wait_seconds=wait.seconds, error=failure.short, waits_for=wait.server
    )
    await call_hooks(connection, engine.kinds, "on_released", [_told(row, NOT_NOW, failure.short)])
    tell(log, "job_put_off", **_who(row), reason=failure.short)


async def bury_jobs(
    connection: Connection,
    engine: Engine,
    rows: Sequence[Record],
    reason: str,
    failure: Failure | None = None,
) -> None:
    """Rows under lock go to the dead letter, their subjects are told."""
    if not rows:
        return
    count = len(rows)
    await tally(connection, Outcome.DEAD, [row for row in rows if row["state"] == State.RUNNING])
    await store.jobs.bury_jobs.rows(
        connection,
        ids=[row["id"] for row in rows],
        reasons=[reason] * count,
        errors=[failure.error if failure else None] * count,
        tracebacks=[failure.traceback if failure else None] * count,
        notices=[failure.notice if failure else None] * count,
    )
    if reason == MAX_ATTEMPTS_EXHAUSTED:
        await store.recovery.count.run(connection, name="retries_exhausted", amount=count)
    error = failure.short if failure else None
    await call_hooks(
        connection,
        engine.kinds,
        "on_failed",
        [
            store.moved(
                row,
                reason=reason,
                error=error or row["error"] or reason,
                final=True,
                notice=failure.notice if failure else None,
            )
            for row in rows
        ],
    )
    await alert_of_deaths(connection, engine, rows, reason, error)
    for row in rows:
        tell(log, "job_dead", **_who(row), why=reason, reason=error or row["error"] or "")


async def hand_back(database: Database, engine: Engine, worker_id: int, jobs: Sequence[ClaimedJob]) -> None:
    """A worker that stops gives back what it has not finished; the attempt does not count.

    A subject that refuses keeps neither its neighbours nor its own job, which moves without it.
    """
    try:
        await _hand_back(database, engine, worker_id, jobs)
    except ASK_AGAIN:
        raise
    except Exception:
        if len(jobs) == 1:
            log.exception("the subject of job %d (%s) refuses to be handed back", jobs[0].id, jobs[0].kind)
            await _hand_back(database, replace(engine, kinds=Kinds()), worker_id, jobs)
            return
        for job in jobs:
            await hand_back(database, engine, worker_id, [job])


async def _hand_back(database: Database, engine: Engine, worker_id: int, jobs: Sequence[ClaimedJob]) -> None:
    async with database.transaction() as connection:
        rows = await store.jobs.hand_back.rows(
            connection, ids=[job.id for job in jobs], tokens=[job.token for job in jobs], worker_id=worker_id
        )
        await tally(connection, Outcome.HANDED_BACK, rows)
        await call_hooks(
            connection, engine.kinds, "on_released", [_told(row, "handed_back", None) for row in rows]
        )


async def reroute_job(connection: Connection, engine: Engine, elsewhere: Elsewhere) -> bool:
    """To the pool of the real type; the claimed type is kept in the payload. False: the claim was lost."""
    job = elsewhere.job
    rows = await store.jobs.reroute_job.rows(
        connection, id=job.id, token=job.token, worker_id=job.worker_id, mime_type=elsewhere.mime_type
    )
    if not rows:
        await warn_of_missing(connection, [job])
        return False
    await tally(connection, Outcome.REROUTED, rows, pool=job.pool)
    await call_hooks(connection, engine.kinds, "on_released", [_told(rows[0], "rerouted", None)])
    tell(log, "job_rerouted", **_who(rows[0]), claimed_type=job.mime_type, real_type=elsewhere.mime_type)
    return True


async def warn_of_missing(connection: Connection, jobs: Sequence[ClaimedJob]) -> None:
    """Say which results are dropped: the job is somebody else's now, or there is none any more."""
    if not jobs:
        return
    rows = await store.jobs.existing_jobs.rows(connection, ids=[job.id for job in jobs])
    existing = {row["id"] for row in rows}
    for job in jobs:
        if job.id in existing:
            tell(log, "claim_lost", job_id=job.id, kind=job.kind, owner=job.owner, pool=job.pool)
        else:
            tell(log, "job_missing", job_id=job.id, kind=job.kind, subject_id=job.subject_id or job.id)


def _arrays(worker_id: int, finishes: Sequence[Finish]) -> dict[str, Any]:
    return {
        "ids": [finish.job.id for finish in finishes],
        "tokens": [finish.job.token for finish in finishes],
        "results": [finish.result_json for finish in finishes],
        "worker_id": worker_id,
    }


def _delivers(engine: Engine, finish: Finish) -> bool:
    return engine.kinds.find(finish.job.kind).saves_result


def _decode(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def _who(row: Record) -> dict[str, Any]:
    """Whom a line of the log is about."""
    return {"job_id": row["id"], "kind": row["kind"], "owner": row["owner"], "pool": row["pool"]}


def _told(row: Record, reason: str, error: str | None) -> Moved:
    return store.moved(row, reason=reason, error=error)
