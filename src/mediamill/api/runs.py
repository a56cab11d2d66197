"""Runs: look at one, at those of a thread, follow one live, and try a failed one again."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import JSONResponse, StreamingResponse

from mediamill.api.deps import Wired
from mediamill.api.events import HEADERS
from mediamill.api.message_shapes import RunOut, RunsOut
from mediamill.api.run_stream import RunStream, read_place
from mediamill.api.welcome import open_stream, while_welcome
from mediamill.inputs import look
from mediamill.inputs.model import THREAD_KEY_CHARACTERS

router = APIRouter(prefix="/v1", tags=["runs"])

ThreadKey = Annotated[
    str, Path(min_length=1, max_length=THREAD_KEY_CHARACTERS, description="May have slashes in it.")
]
Amount = Annotated[int, Query(ge=1, le=100)]
Before = Annotated[int | None, Query(ge=1, le=2**63 - 1, description="The `next` of the page before.")]


@router.get("/runs/{run_id}", responses={200: {"model": RunOut}})
async def show_run(deps: Wired, run_id: UUID) -> JSONResponse:
    """A run as it is now, with its answer so far."""
    async with deps.database.connection() as connection:
        run = await look.show_run(connection, run_id)
    return JSONResponse(run.plain())


@router.post("/runs/{run_id}/retry", responses={200: {"model": RunOut}})
async def retry_run(deps: Wired, run_id: UUID) -> JSONResponse:
    """A run that failed, once more."""
    async with deps.database.transaction() as connection:
        run = await look.retry_run(connection, run_id)
    return JSONResponse(run.plain())


@router.get("/threads/{thread_key:path}/runs", responses={200: {"model": RunsOut}})
async def list_runs(
    deps: Wired, thread_key: ThreadKey, limit: Amount = 50, before: Before = None
) -> JSONResponse:
    """The runs of a thread, newest first."""
    async with deps.database.connection() as connection:
        runs = await look.list_runs(connection, thread_key, before=before, amount=limit)
    following = runs[-1].sequence if len(runs) == limit else None
    return JSONResponse({"runs": [run.plain() for run in runs], "next": following})


@router.get(
    "/runs/{run_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-Sent Events. `state`: it changed; `text`: the answer goes on, `id` is the place; "
            "`restart`: the answer begins anew; last `completed` or `failed`, with the run.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def stream_run(
    request: Request,
    deps: Wired,
    run_id: UUID,
    after: Annotated[str | None, Query(description="The last `id` that was received.")] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """The answer as it comes, from its beginning or from a place on, to the end of the run."""
    place = read_place(last_event_id or after)
    async with deps.database.connection() as connection:
        await look.show_run(connection, run_id)
    opened = open_stream(request)
    stream = RunStream(deps, run_id, place)
    return StreamingResponse(
        while_welcome(request, opened, stream.lines()), media_type="text/event-stream", headers=HEADERS
    )
