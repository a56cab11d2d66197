"""The audit log over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from mediamill.access.audit import list_entries
from mediamill.api.deps import Wired

router = APIRouter(prefix="/api/audit", tags=["access"])


@router.get("")
async def show_audit(
    deps: Wired,
    who: Annotated[str | None, Query(max_length=300)] = None,
    action: Annotated[
        str | None, Query(max_length=100, description="`user.add`, or `user` for all of users.")
    ] = None,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    amount: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """What was done, the newest first; `next` is the `before` of the next page."""
    async with deps.database.connection() as connection:
        entries = await list_entries(connection, who=who, action=action, before=before, amount=amount)
    return {"entries": entries, "next": entries[-1]["id"] if len(entries) == amount else None}
