"""Files of remote workers: a job's input down, what it has finished up. Every word shows the claim.

The claim is looked at before a body is read, and again when it is there: whoever lost it meanwhile changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from mediamill.api.claim_desk import holds
from mediamill.api.deps import Deps, Id, Wired
from mediamill.api.errors import problem_of
from mediamill.api.file_answer import OTHER, answer_file, sent_in_ranges
from mediamill.api.inbox import Refusal, RequestBody
from mediamill.api.worker import ClaimIn, WorkerOfKey, worker_of_request
from mediamill.engine import lease
from mediamill.engine.model import ClaimedJob, has_nul
from mediamill.engine.pools import Pool
from mediamill.errors import ClaimLostError, InvalidError, MediamillError, NotFoundError
from mediamill.staging.inputs import find_input, stored_names
from mediamill.staging.kept import NewKept, check_kept_name, keep_file, list_kept, part_path
from mediamill.staging.received import Received, check_hash, derivative_name, put_derivative, receive
from mediamill.storage.choose import storage_of
from mediamill.storage.contract import OpenFile
from mediamill.storage.folder import open_plain

router = APIRouter(
    prefix="/api/worker/jobs/{job_id}", tags=["worker"], dependencies=[Depends(worker_of_request)]
)

Token = Annotated[int, Query(ge=1, le=2**63 - 1)]
Sha256 = Annotated[str, Header(pattern=r"^[0-9a-fA-F]{64}$", description="Of the body, in hex.")]
Facts = Annotated[str, Header(max_length=4096, description="A JSON object about the file, in ASCII.")]
BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class InputMissingError(NotFoundError):
    """The job has no file, or it is not there any more."""

    code = "input_missing"


class BadFactsError(InvalidError):
    """X-Facts must be a JSON object of at most 4096 bytes."""

    code = "bad_facts"


@router.get("/input", response_class=Response, responses=sent_in_ranges(OTHER))
async def send_input(
    request: Request, deps: Wired, worker_id: WorkerOfKey, job_id: Id, token: Token
) -> Response:
    """The file that the job is about; by range, so that a download can go on where it broke off."""
    job, _ = await _held(deps, worker_id, job_id, token)
    payload = json.loads(job.payload_json)
    storage = storage_of(deps.settings)
    # Any path of this machine is only for jobs that did not come over the network.
    local = deps.engine.kinds.find(job.kind).local
    file: OpenFile | None = None
    for name in stored_names(payload):
        file = file or await storage.open(deps.database, name)
    if file is None:
        path = find_input(deps.settings.data_folder, payload)
        if path is None or (not local and not {"staged", "data", "stored"} & set(payload["file"])):
            raise InputMissingError("this job has no file that is sent")
        file = await asyncio.to_thread(partial(open_plain, follow=local), path)
    if file is None:
        raise InputMissingError
    return answer_file(request, file)


@router.get("/input/{name}", response_class=Response, responses=sent_in_ranges(OTHER))
async def send_input_file(
    request: Request, deps: Wired, worker_id: WorkerOfKey, job_id: Id, name: str, token: Token
) -> Response:
    """One of the files that the job is about, if there are several in one folder."""
    job, _ = await _held(deps, worker_id, job_id, token)
    payload = json.loads(job.payload_json)
    match payload.get("file"):
        case {"data": str(), "files": list(names)} if check_kept_name(name) in names:
            [folder] = stored_names(payload)
        case _:
            raise InputMissingError("this job has no file of that name")
    file = await storage_of(deps.settings).open(deps.database, f"{folder}/{name}")
    if file is None:
        raise InputMissingError
    return answer_file(request, file)


@router.get("/kept")
async def show_kept(deps: Wired, worker_id: WorkerOfKey, job_id: Id, token: Token) -> dict[str, Any]:
    """What this and earlier attempts have kept."""
    await _held(deps, worker_id, job_id, token)
    async with deps.database.connection() as connection:
        kept = await list_kept(connection, storage_of(deps.settings), job_id)
    same = ("name", "bytes", "sha256", "facts")
    return {"files": [{name: getattr(one, name) for name in same} for one in kept]}


@router.put("/kept/{name}", status_code=204, openapi_extra=BODY)
async def take_kept(
    request: Request,
    deps: Wired,
    worker_id: WorkerOfKey,
    job_id: Id,
    name: str,
    token: Token,
    x_content_sha256: Sha256,
    x_facts: Facts = "{}",
) -> Response:
    """A finished file, kept for later attempts whatever becomes of this one."""

    async def keep(job: ClaimedJob, pool: Pool, received: Received) -> Response:
        new = NewKept(name, received.path, received.bytes, received.sha256, _facts(x_facts))
        await keep_file(deps.database, storage_of(deps.settings), job, new, pool.lease_seconds)
        return Response(status_code=204)

    def check(_job: ClaimedJob) -> None:
        check_kept_name(name)
        _facts(x_facts)

    return await _take(request, deps, (worker_id, job_id, token), x_content_sha256, check, keep)


@router.put("/files/{path:path}", openapi_extra=BODY)
async def take_derivative(
    request: Request,
    deps: Wired,
    worker_id: WorkerOfKey,
    job_id: Id,
    path: str,
    token: Token,
    x_content_sha256: Sha256,
) -> Response:
    """A file that the result will name: its path and size, as the result must name them."""

    async def keep(job: ClaimedJob, _pool: Pool, received: Received) -> Response:
        await _held(deps, worker_id, job_id, token)
        named = derivative_name(job, path)
        await put_derivative(deps.database, storage_of(deps.settings), job, received, named)
        return JSONResponse({"path": named, "bytes": received.bytes})

    def check(job: ClaimedJob) -> None:
        derivative_name(job, path)

    return await _take(request, deps, (worker_id, job_id, token), x_content_sha256, check, keep)


async def _take(
    request: Request,
    deps: Deps,
    claim: tuple[int, int, int],
    sha256: str,
    check: Callable[[ClaimedJob], None],
    keep: Callable[[ClaimedJob, Pool, Received], Awaitable[Response]],
) -> Response:
    """Look at the claim, receive the body beside the kept files of the job, compare, and keep."""
    body = RequestBody(request)
    length = request.headers.get("content-length", "")
    try:
        job, pool = await _held(deps, *claim)
        check(job)
        part = await asyncio.to_thread(part_path, deps.settings.data_folder, job.id)
        async with receive(
            part,
            body.chunks(),
            limit_bytes=deps.settings.worker_file_limit_bytes,
            announced_bytes=int(length) if length.isdecimal() else None,
        ) as received:
            check_hash(received, sha256)
            return await keep(job, pool, received)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except (MediamillError, HTTPException) as error:
        return Refusal(problem_of(error), body)


async def _held(deps: Deps, worker_id: int, job_id: int, token: int) -> tuple[ClaimedJob, Pool]:
    """The job of a claim that holds; its lease is extended. ClaimLostError otherwise."""
    async with deps.database.transaction() as connection:
        found = await holds(connection, worker_id, [ClaimIn(job_id=job_id, token=token)])
        for pool, (job, *_) in found.items():
            held = await lease.extend_leases(
                connection, [job.claim], worker_id=worker_id, lease_seconds=pool.lease_seconds
            )
            if held:
                return job, pool
    raise ClaimLostError


def _facts(text: str) -> dict[str, Any]:
    """What PostgreSQL can store as it is: no NUL, no halves of characters, no numbers that are none."""
    try:
        facts = json.loads(text)
        plain = json.dumps(facts, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise BadFactsError from None
    if not isinstance(facts, dict) or has_nul(plain):
        raise BadFactsError
    return facts
