"""The lease protocol for workers that have only a URL and a key: register, heartbeat, claim, progress, complete, fail.

Every word about a job shows its claim (job id and token); a word that comes too late gets 409 `claim_lost` and
changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mediamill.access.audit import tell_subject
from mediamill.access.model import Scope, current_caller
from mediamill.api.claim_desk import ClaimDesk, holds
from mediamill.api.deps import Wired
from mediamill.api.sessions import bearer, is_secret
from mediamill.api.welcome import remember
from mediamill.db.connection import ASK_AGAIN, LOST, Connection
from mediamill.engine import lease, settle, workers
from mediamill.engine.model import ClaimedJob, Failure, WorkerState, failure_of
from mediamill.engine.recovery.unknown_claims import return_unheard
from mediamill.engine.settle import Elsewhere, Finish, encode_result
from mediamill.errors import ClaimLostError, DeniedError, GiveUpError, NotNowError, RetryLaterError
from mediamill.staging.inputs import drop_input, end_input
from mediamill.staging.received import check_named
from mediamill.storage.choose import storage_of

Text = Annotated[str, Field(min_length=1, max_length=500)]
BigId = Annotated[int, Field(ge=1, le=2**63 - 1)]
ON_THE_WAY_SECONDS = 60.0  # so long may the answer to a claim be on its way


class RegistrationDeniedError(DeniedError):
    """Registering a worker needs the admin secret, or the scope `worker`."""

    code = "registration_denied"


def _may_register(given: str | None, secret: SecretStr | None) -> bool:
    caller = current_caller()
    return (caller is not None and caller.may(Scope.WORKER)) or is_secret(given, secret)


async def worker_of_request(
    request: Request,
    deps: Wired,
    authorization: Annotated[str | None, Header()] = None,
    x_worker_instance: Annotated[str | None, Header()] = None,
) -> int:
    """Whose key it is; every route but the first asks."""
    key = bearer(authorization)
    if key is None:
        raise workers.WorkerKeyInvalidError(
            "no worker key was sent", fix="send Authorization: Bearer <worker key>"
        )

    async def find() -> int:
        async with deps.database.connection() as connection:
            return await workers.worker_of_key(connection, key, x_worker_instance)

    remember(request.scope, find)
    return await find()


WorkerOfKey = Annotated[int, Depends(worker_of_request)]

door = APIRouter(prefix="/api/worker", tags=["worker"])
keyed = APIRouter(prefix="/api/worker", tags=["worker"], dependencies=[Depends(worker_of_request)])


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Registration(_In):
    """A worker that wants a key."""

    name: Text
    pools: list[Text] = Field(default_factory=list, max_length=1000)
    capabilities: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)


class ClaimIn(_In):
    """Proof of a hold."""

    job_id: BigId
    token: BigId


class Heartbeat(_In):
    """A sign of life; `claims`: what is still being worked on, to extend its leases.

    `all_claims`: that is everything; whatever else is in the worker's name, it does not know of, and is put back.
    """

    state: Literal["active", "idle", "busy", "paused", "offline"]
    hostname: Text | None = None
    current_job_id: BigId | None = None
    stats: dict[str, Any] = Field(default_factory=dict)
    claims: list[ClaimIn] = Field(default_factory=list, max_length=1000)
    all_claims: bool = False


class Wish(_In):
    """What a worker would take."""

    pools: list[Text] = Field(default_factory=list, max_length=1000)
    amount: int = Field(default=1, ge=1, le=100)


class Progress(ClaimIn):
    """How far a job is."""

    step: Text | None = None
    percent: float | None = Field(default=None, ge=0, le=100, allow_inf_nan=False)
    parts: Any = None
    checkpoint: Any = None


class Completion(ClaimIn):
    """A result."""

    result: Any = None


class Failed(ClaimIn):
    """A failed attempt. `counts`: without it, what the work needs was not there, and the attempt was none."""

    error: str = Field(min_length=1, max_length=100_000)
    permanent: bool = False
    counts: bool = True
    traceback: str | None = Field(default=None, max_length=1_000_000)
    notice: str | None = Field(default=None, max_length=10_000)


class WrongType(ClaimIn):
    """A job whose file is really of another type."""

    mime_type: Text


class Claims(_In):
    """Jobs that go back unfinished."""

    claims: list[ClaimIn] = Field(max_length=1000)


@door.post("/register", status_code=201)
async def register(
    deps: Wired, given: Registration, x_admin_secret: Annotated[str | None, Header()] = None
) -> dict[str, Any]:
    """A worker id and its key, which is shown this once."""
    if not _may_register(x_admin_secret, deps.settings.admin_secret):
        if deps.settings.admin_secret is None and x_admin_secret is not None:
            raise RegistrationDeniedError(
                "this server has no admin secret",
                fix="set MEDIAMILL_ADMIN_SECRET and restart, or show a token with the scope worker",
            )
        raise RegistrationDeniedError(
            fix="send the header X-Admin-Secret with the value of MEDIAMILL_ADMIN_SECRET, or a token with the scope "
            "worker"
        )
    tell_subject(given.name)
    async with deps.database.transaction() as connection:
        worker_id = await workers.register_worker(connection, type_="remote", **given.model_dump())
        key = await workers.issue_key(connection, worker_id)
    return {"worker_id": worker_id, "key": key, "heartbeat_seconds": deps.engine.heartbeat_seconds}


@keyed.post("/heartbeat")
async def heartbeat(deps: Wired, worker_id: WorkerOfKey, given: Heartbeat) -> dict[str, Any]:
    """Heard. The answer carries a command, once, and which of the claims are lost."""
    async with deps.database.transaction() as connection:
        heard = await workers.heartbeat(
            connection,
            worker_id,
            state=WorkerState(given.state),
            current_job_id=given.current_job_id,
            stats=given.stats,
            hostname=given.hostname,
        )
        held = await _extend(connection, worker_id, given.claims)
    if given.all_claims:
        await return_unheard(
            deps.database,
            deps.engine,
            worker_id,
            [claim.job_id for claim in given.claims],
            max(ON_THE_WAY_SECONDS, 2 * deps.engine.heartbeat_seconds),
        )
    return {
        "command": heard.command,
        "state": heard.state,
        "lost": [claim.job_id for claim in given.claims if claim.job_id not in held],
        "heartbeat_seconds": deps.engine.heartbeat_seconds,
    }


@keyed.post("/extend")
async def extend(deps: Wired, worker_id: WorkerOfKey, given: Claims) -> dict[str, list[int]]:
    """Jobs that are still being worked on; which of the claims are lost."""
    async with deps.database.transaction() as connection:
        held = await _extend(connection, worker_id, given.claims)
    return {"lost": [claim.job_id for claim in given.claims if claim.job_id not in held]}


async def _extend(connection: Connection, worker_id: int, claims: Sequence[ClaimIn]) -> set[int]:
    held: set[int] = set()
    for pool, jobs in (await holds(connection, worker_id, claims)).items():
        held |= await lease.extend_leases(
            connection, [job.claim for job in jobs], worker_id=worker_id, lease_seconds=pool.lease_seconds
        )
    return held


@keyed.post("/claim")
async def claim(
    request: Request,
    worker_id: WorkerOfKey,
    wish: Wish,
    x_worker_instance: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Jobs of pools that have a processor, each with all that a run needs; and when the next one comes due."""
    desk: ClaimDesk = request.app.state.claim_desk
    claimed, due_at = await desk.claim(worker_id, wish.pools, wish.amount)
    if claimed:
        await _check_there(request, desk, worker_id, [job for job, _ in claimed], x_worker_instance)
    due_in = None if due_at is None else max(0.0, (due_at - datetime.now(UTC)).total_seconds())
    return {"jobs": [desk.for_wire(job, pool) for job, pool in claimed], "due_in_seconds": due_in}


async def _check_there(
    request: Request, desk: ClaimDesk, worker_id: int, jobs: Sequence[ClaimedJob], instance: str | None
) -> None:
    """Whoever asked may be gone, or replaced by a process whose greeting came before the claim: not for them, then."""
    try:
        if await request.is_disconnected():
            raise workers.WorkerReplacedError("nobody is there to take the jobs")
        await desk.check_instance(worker_id, instance)
    except workers.WorkerReplacedError:
        await desk.hand_back(worker_id, jobs)
        raise


@keyed.post("/progress")
async def progress(deps: Wired, worker_id: WorkerOfKey, given: Progress) -> dict[str, Any]:
    """Saved, and the lease extended."""
    async with deps.database.transaction() as connection:
        for pool, jobs in (await holds(connection, worker_id, [given])).items():
            report = given.model_dump(exclude={"job_id", "token"})
            await lease.report_on_job(
                connection, deps.engine.kinds, jobs[0], lease_seconds=pool.lease_seconds, **report
            )
            return {"job_id": given.job_id, "lease_seconds": pool.lease_seconds}
    raise ClaimLostError


@keyed.post("/complete")
async def complete(deps: Wired, worker_id: WorkerOfKey, given: Completion) -> dict[str, Any]:
    """Done, once. When the subject refuses the result, that is a failed attempt."""
    result = encode_result(deps.engine, given.result)
    async with deps.database.connection() as connection:
        found = await holds(connection, worker_id, [given])
        for jobs in found.values():
            await check_named(connection, storage_of(deps.settings), jobs[0], given.result)
    for jobs in found.values():
        settled = await settle.finish_jobs(deps.database, deps.engine, worker_id, [Finish(jobs[0], result)])
        if given.job_id in settled.failed:
            await _fail(deps, worker_id, given, settled.failed[given.job_id])
            return {"job_id": given.job_id, "outcome": "failed"}
        if given.job_id in settled.done:
            await _end_input(deps, jobs[0], keep=False)
            return {"job_id": given.job_id, "outcome": "completed"}
    raise ClaimLostError


@keyed.post("/fail")
async def fail(deps: Wired, worker_id: WorkerOfKey, given: Failed) -> dict[str, Any]:
    """Another try, or the dead letter."""
    family = GiveUpError if given.permanent else RetryLaterError if given.counts else NotNowError
    failure = replace(failure_of(family(given.error), given.traceback), notice=given.notice)
    fate = await _fail(deps, worker_id, given, failure)
    return {"job_id": given.job_id, "outcome": "failed", "dead": fate is settle.Fate.DEAD}


async def _fail(deps: Wired, worker_id: int, claim: ClaimIn, failure: Failure) -> settle.Fate:
    async with deps.database.connection() as connection:
        found = await holds(connection, worker_id, [claim])
    for pool, (job, *_) in found.items():
        fate = await settle.fail_in_any_case(deps.database, deps.engine, job, failure, pool)
        if fate is settle.Fate.DEAD:
            await _end_input(deps, job, keep=True, refused=failure.refuses_file)
        if fate:
            return fate
    raise ClaimLostError


async def _end_input(deps: Wired, job: ClaimedJob, *, keep: bool, refused: bool = False) -> None:
    """The file that was staged for it is not needed any more; what cannot be deleted now is left to the sweep."""
    if deps.engine.kinds.find(job.kind).owns_input:
        with contextlib.suppress(*LOST):
            payload, place = json.loads(job.payload_json), storage_of(deps.settings)
            if refused:
                await drop_input(deps.database, place, payload, give_up=True)
            else:
                await end_input(deps.database, place, payload, keep=keep)


@keyed.post("/reroute")
async def reroute(deps: Wired, worker_id: WorkerOfKey, given: WrongType) -> dict[str, Any]:
    """To the pool of the file's real type; the attempt does not count, unless the subject refuses."""
    try:
        async with deps.database.transaction() as connection:
            for jobs in (await holds(connection, worker_id, [given])).values():
                if await settle.reroute_job(connection, deps.engine, Elsewhere(jobs[0], given.mime_type)):
                    return {"job_id": given.job_id, "outcome": "rerouted"}
    except ASK_AGAIN:
        raise
    except Exception as error:
        await _fail(deps, worker_id, given, failure_of(error, traceback.format_exc()))
        return {"job_id": given.job_id, "outcome": "failed"}
    raise ClaimLostError


@keyed.post("/release")
async def release(deps: Wired, worker_id: WorkerOfKey, given: Claims) -> dict[str, int]:
    """A worker that stops gives back what it has not finished; the attempts do not count."""
    async with deps.database.connection() as connection:
        found = await holds(connection, worker_id, given.claims)
    jobs: list[ClaimedJob] = [job for held in found.values() for job in held]
    if jobs:
        await settle.hand_back(deps.database, deps.engine, worker_id, jobs)
    return {"released": len(jobs)}
