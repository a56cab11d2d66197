"""Messages for an agent: a text with images, taken in while they arrive and kept when this answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from mediamill.api.deps import Deps, Wired
from mediamill.api.errors import problem_of
from mediamill.api.inbox import Inbox, Refusal, RequestBody
from mediamill.api.message_shapes import REQUEST_BODY, AcceptedMessageOut
from mediamill.errors import MediamillError
from mediamill.inputs import counters
from mediamill.inputs.accept import Accepted, accept_run, purge_expired
from mediamill.inputs.draft import MessageDraft, ReadMessage
from mediamill.inputs.model import BODY_LIMIT_BYTES, NewRun, Scope
from mediamill.inputs.read_body import BodyReader, BodyTooLargeError, read_body
from mediamill.inputs.read_message import JsonMessageReader
from mediamill.inputs.read_multipart import MultipartMessageReader

router = APIRouter(prefix="/v1", tags=["messages"])

SOURCE = "api"
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key with the same message is taken once; with another message it is refused. "
        "May be in the body instead.",
    ),
]


@router.post(
    "/messages",
    status_code=202,
    responses={202: {"model": AcceptedMessageOut, "description": "It is kept, and will be answered."}},
    openapi_extra={"requestBody": REQUEST_BODY},
)
async def send_message(request: Request, deps: Wired, key: Key = None) -> Response:
    """A text for the agent of a thread, with up to 10 images of 50 MiB together. The run answers it."""
    inbox: Inbox = request.app.state.inbox
    body = RequestBody(request)
    draft: MessageDraft | None = None
    try:
        async with deps.database.transaction() as connection:
            await purge_expired(connection)  # in one of its own, as a refusal would undo it
        with inbox.spool.open_tray(_announced_bytes(request)) as tray:
            draft = MessageDraft(tray, key)
            message = await read_body(_reader(request, draft), body.chunks())
            accepted = await _store(deps, inbox, message)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except MediamillError as error:
        counters.count_rejected(SOURCE, error, draft.thread_key if draft else None)
        return Refusal(problem_of(error), body)
    except HTTPException as error:
        return Refusal(problem_of(error), body)
    return JSONResponse(_plain(accepted), 202)


def _announced_bytes(request: Request) -> int | None:
    length = request.headers.get("content-length", "")
    announced = int(length) if length.isdecimal() else None
    if announced is not None and announced > BODY_LIMIT_BYTES:
        raise BodyTooLargeError
    return announced


def _reader(request: Request, draft: MessageDraft) -> BodyReader:
    content_type = request.headers.get("content-type", "")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "send the body as it is, without Content-Encoding")
    match content_type.partition(";")[0].strip().lower():
        case "application/json":
            return JsonMessageReader(draft)
        case "multipart/form-data":
            return MultipartMessageReader(draft, content_type)
    raise HTTPException(415, "send application/json or multipart/form-data")


async def _store(deps: Deps, inbox: Inbox, message: ReadMessage) -> Accepted:
    if not message.images:
        return await _accept(deps, message)
    async with inbox.storing.take(sum(image.byte_size for image in message.images)):
        return await _accept(deps, message)


async def _accept(deps: Deps, message: ReadMessage) -> Accepted:
    new = NewRun(
        Scope(SOURCE, message.thread_key),
        message.text,
        message.delivery_mode,
        message.idempotency_key,
        message.payload_hash,
    )
    async with deps.database.transaction() as connection:
        return await accept_run(connection, new, message.images)


def _plain(accepted: Accepted) -> dict[str, object]:
    run = accepted.run
    return {
        "run_id": str(run.run_id),
        "thread_key": run.thread_key,
        "delivery_mode": run.delivery_mode,
        "state": run.state,
        "repeated": accepted.repeated,
        "image_count": run.image_count,
        "links": {"run": f"/v1/runs/{run.run_id}", "events": f"/v1/runs/{run.run_id}/events"},
    }
