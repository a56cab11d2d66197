"""Owners: hold all their jobs, and release them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from mediamill.api.deps import Wired
from mediamill.engine import hold, watch

router = APIRouter(prefix="/api/owners", tags=["owners"])

Owner = Annotated[str, Path(min_length=1, max_length=500)]


@router.get("/held")
async def list_held(deps: Wired) -> dict[str, Any]:
    """Owners on hold, since when, and how many jobs wait for them."""
    async with deps.database.connection() as connection:
        return {"owners": await watch.held_owners(connection)}


@router.post("/{owner:path}/hold")
async def hold_owner(deps: Wired, owner: Owner) -> dict[str, Any]:
    """Nothing of this owner is claimed from now on; how many jobs that holds."""
    async with deps.database.transaction() as connection:
        return {"owner": owner, "held": await hold.hold_owner(connection, owner)}


@router.post("/{owner:path}/release")
async def release_owner(deps: Wired, owner: Owner) -> dict[str, Any]:
    """The owner is back; how many jobs that releases."""
    async with deps.database.transaction() as connection:
        return {"owner": owner, "released": await hold.release_owner(connection, owner)}
