"""A remote worker comes, learns which pools there are, listens for work, and goes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from mediamill import __version__
from mediamill.api.deps import Wired
from mediamill.api.file_answer import sent_as
from mediamill.api.wakes import WakeHub
from mediamill.api.welcome import open_stream, while_welcome
from mediamill.api.worker import WorkerOfKey, worker_of_request
from mediamill.engine import workers
from mediamill.engine.alerts import raise_alert
from mediamill.engine.model import WorkerState
from mediamill.engine.pools import list_pools
from mediamill.engine.recovery.unknown_claims import release_unknown
from mediamill.engine.watch import depth_of_pool

router = APIRouter(prefix="/api/worker", tags=["worker"], dependencies=[Depends(worker_of_request)])

PROTOCOL = 1  # what a worker and a server must agree on
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Hello(BaseModel):
    """A worker process that starts; `instance` is a random name of its own, sent with every later word."""

    model_config = ConfigDict(extra="forbid")

    instance: Annotated[str, Field(pattern=r"^[0-9a-f]{16,64}$")]
    protocol: int = Field(default=PROTOCOL, ge=1)
    hostname: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    capabilities: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)


@router.post("/hello")
async def hello(deps: Wired, worker_id: WorkerOfKey, given: Hello) -> dict[str, Any]:
    """From now on the key is this process's. What an earlier one still held is put back: it is gone."""
    engine = deps.engine
    async with deps.database.transaction() as connection:
        greeted = await workers.greet_worker(connection, worker_id, **given.model_dump(exclude={"protocol"}))
        await raise_alert(connection, engine, "worker_startup", {"worker": greeted["name"]})
    released = await release_unknown(deps.database, engine, worker_id)
    return {
        "worker_id": worker_id,
        "name": greeted["name"],
        "version": __version__,
        "protocol": PROTOCOL,
        "heartbeat_seconds": engine.heartbeat_seconds,
        "payload_limit_bytes": engine.payload_limit_bytes,
        "released": released,
    }


@router.get("/pools")
async def pools(deps: Wired, worker_id: WorkerOfKey) -> dict[str, Any]:
    """The pools that this worker may serve, of its registration and with a processor; and how many jobs wait."""
    async with deps.database.connection() as connection:
        worker = await workers.show_worker(connection, worker_id)
        found = [
            pool
            for pool in await list_pools(connection)
            if pool.processor is not None and (not worker["pools"] or pool.name in worker["pools"])
        ]
        waiting = [await depth_of_pool(connection, pool.name) for pool in found]
    return {
        "pools": [{**pool.as_dict(), "waiting": count} for pool, count in zip(found, waiting, strict=True)]
    }


@router.get(
    "/wakes",
    response_class=StreamingResponse,
    responses=sent_as("application/x-ndjson", what="A line for each hint.", binary=False),
)
async def wakes(request: Request, worker_id: WorkerOfKey) -> StreamingResponse:
    """A line when there may be work, when pools were edited, when a command waits. Hints: a claim decides."""
    hub: WakeHub = request.app.state.wake_hub
    lines = while_welcome(request, open_stream(request, ("worker", worker_id)), hub.listen(worker_id))
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=STREAM_HEADERS)


@router.post("/leave")
async def leave(deps: Wired, worker_id: WorkerOfKey) -> dict[str, int]:
    """The worker goes. Whatever is still in its name is put back, then it is offline."""
    released = await release_unknown(deps.database, deps.engine, worker_id)
    async with deps.database.transaction() as connection:
        worker = await workers.show_worker(connection, worker_id)
        await workers.set_state(connection, worker_id, worker["name"], WorkerState.OFFLINE)
        await raise_alert(connection, deps.engine, "worker_shutdown", {"worker": worker["name"]})
    return {"released": released}
