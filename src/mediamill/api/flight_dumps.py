"""Flight logs of workers: which there are, and one of them as text; a remote worker sends its own."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import StreamingResponse

from mediamill.api.deps import Id, Wired
from mediamill.api.file_answer import sent_as
from mediamill.api.worker import WorkerOfKey, worker_of_request
from mediamill.engine import flight_dumps

router = APIRouter(prefix="/api/flight-dumps", tags=["workers"])
door = APIRouter(prefix="/api/worker", tags=["worker"], dependencies=[Depends(worker_of_request)])


@router.get("")
async def list_dumps(
    deps: Wired,
    worker_id: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    amount: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Newest first."""
    async with deps.database.connection() as connection:
        return {"dumps": await flight_dumps.list_dumps(connection, worker_id=worker_id, amount=amount)}


@router.get(
    "/{dump_id}",
    response_class=StreamingResponse,
    responses=sent_as("text/plain", what="Lines of JSON.", binary=False),
)
async def read_dump(deps: Wired, dump_id: Id) -> StreamingResponse:
    """All of one, as text."""
    async with deps.database.connection() as connection:
        name, packed = await flight_dumps.read_dump(connection, dump_id)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-store"}
    return StreamingResponse(
        flight_dumps.unpack(packed), media_type="text/plain; charset=utf-8", headers=headers
    )


@door.put("/dumps/{name}")
async def keep_dump(
    deps: Wired,
    request: Request,
    worker_id: WorkerOfKey,
    name: Annotated[str, Path(max_length=100)],
) -> dict[str, Any]:
    """A worker's own, compressed by zlib; `kept` is false if it was here already."""
    if flight_dumps.worker_of_name(name) != worker_id:
        raise flight_dumps.DumpInvalidError("this is the flight log of another worker")
    packed = await _read(request)
    async with deps.database.transaction() as connection:
        return {"name": name, "kept": await flight_dumps.keep_dump(connection, name, packed)}


async def _read(request: Request) -> bytes:
    packed = bytearray()
    async for chunk in request.stream():
        packed += chunk
        if len(packed) > flight_dumps.MOST_PACKED_BYTES:
            raise flight_dumps.DumpTooLargeError(
                f"a flight log may have {flight_dumps.MOST_PACKED_BYTES} bytes, compressed"
            )
    return bytes(packed)
