"""Workers, as their operator sees them: list, command, disable, enable, revoke keys."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from mediamill.api.deps import Wired, WorkerId
from mediamill.engine import workers
from mediamill.engine.model import Command

router = APIRouter(prefix="/api/workers", tags=["workers"])


class CommandIn(BaseModel):
    """What to tell a worker."""

    command: Command


@router.get("")
async def list_workers(deps: Wired, all: bool = False) -> dict[str, Any]:
    """Workers; those gone for more than an hour only with `all`."""
    async with deps.database.connection() as connection:
        return {"workers": await workers.list_workers(connection, all_=all)}


@router.post("/{worker_id}/command")
async def give_command(deps: Wired, worker_id: WorkerId, given: CommandIn) -> dict[str, Any]:
    """Pause, resume, shutdown or forensic_dump."""
    async with deps.database.transaction() as connection:
        await workers.give_command(connection, worker_id, given.command)
    return {"id": worker_id, "command": given.command}


@router.post("/{worker_id}/disable")
async def disable_worker(deps: Wired, worker_id: WorkerId) -> dict[str, int]:
    """It finishes what it holds, and gets no jobs until it is enabled."""
    async with deps.database.transaction() as connection:
        await workers.disable_worker(connection, worker_id)
    return {"id": worker_id}


@router.post("/{worker_id}/enable")
async def enable_worker(deps: Wired, worker_id: WorkerId) -> dict[str, int]:
    """It may have jobs again, from its next heartbeat on."""
    async with deps.database.transaction() as connection:
        await workers.find_worker(connection, str(worker_id))
        await workers.enable_worker(connection, worker_id)
    return {"id": worker_id}


@router.post("/{worker_id}/revoke")
async def revoke_keys(deps: Wired, worker_id: WorkerId) -> dict[str, int]:
    """No key of this worker works any more; how many did."""
    async with deps.database.transaction() as connection:
        await workers.find_worker(connection, str(worker_id))
        return {"id": worker_id, "revoked": await workers.revoke_keys(connection, worker_id)}
