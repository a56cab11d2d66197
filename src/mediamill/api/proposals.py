"""Proposals: values that were found in files, until a person accepts, edits or rejects them, or enters others."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from mediamill.api.deps import Id, Wired
from mediamill.api.project_files import After, Amount
from mediamill.api.project_shapes import (
    AcceptIn,
    FieldValueIn,
    FindingIn,
    ProposalOut,
    ProposalsOut,
    ProposalState,
)
from mediamill.api.projects import Slug
from mediamill.intake import findings, proposals

router = APIRouter(tags=["proposals"])

OfFile = Annotated[int | None, Query(ge=1, le=2**63 - 1, description="Only those of this file.")]
OfField = Annotated[str | None, Query(max_length=60, description="Only those of this field.")]


@router.get("/api/projects/{slug}/proposals", response_model=ProposalsOut)
async def list_proposals(
    deps: Wired,
    slug: Slug,
    state: ProposalState = "pending",
    file_id: OfFile = None,
    field: OfField = None,
    after: After = None,
    amount: Amount = 100,
) -> dict[str, Any]:
    """A page of what was proposed; without more words, of what waits for a person."""
    async with deps.database.connection() as connection:
        return await proposals.list_proposals(
            connection, slug, state=state, file_id=file_id, field=field, after=after, amount=amount
        )


@router.post("/api/files/{file_id}/values", status_code=201, response_model=ProposalOut)
async def enter_value(deps: Wired, file_id: Id, entry: FieldValueIn) -> dict[str, Any]:
    """What a person knows: accepted at once, in place of what was entered for that field before."""
    async with deps.database.transaction() as connection:
        return await proposals.enter_value(connection, file_id, entry.field, entry.value)


@router.post("/api/proposals/{proposal_id}/accept", response_model=ProposalOut)
async def accept(deps: Wired, proposal_id: Id, wish: AcceptIn | None = None) -> dict[str, Any]:
    """Take it as the file's value, or what a person wrote instead."""
    async with deps.database.transaction() as connection:
        return await proposals.accept(connection, proposal_id, wish.value if wish else None)


@router.post("/api/proposals/{proposal_id}/reject", response_model=ProposalOut)
async def reject(deps: Wired, proposal_id: Id) -> dict[str, Any]:
    """It is wrong. The same value is not proposed for this file again."""
    async with deps.database.transaction() as connection:
        return await proposals.reject(connection, proposal_id)


@router.post("/api/proposals/{proposal_id}/reopen", response_model=ProposalOut)
async def reopen(deps: Wired, proposal_id: Id) -> dict[str, Any]:
    """Undo what was decided: it waits again."""
    async with deps.database.transaction() as connection:
        return await proposals.reopen(connection, proposal_id)


@router.post("/api/findings/{finding_id}/field", response_model=ProposalOut)
async def make_field_of_finding(deps: Wired, finding_id: Id, wish: FindingIn | None = None) -> dict[str, Any]:
    """What fits no field becomes one, or the value of one that is there; accepted in its file, proposed in others."""
    async with deps.database.transaction() as connection:
        return await findings.make_field(connection, finding_id, wish.field if wish else None)


@router.post("/api/findings/{finding_id}/drop")
async def drop_finding(deps: Wired, finding_id: Id) -> dict[str, str]:
    """Its label is not offered any more in this project."""
    async with deps.database.transaction() as connection:
        return {"dropped": await findings.drop_finding(connection, finding_id)}
