"""Tokens over HTTP: make one, which is shown once; list; revoke."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from mediamill.access import tokens
from mediamill.access.audit import tell_subject
from mediamill.access.model import Scope, current_caller
from mediamill.api.deps import Id, Wired

router = APIRouter(prefix="/api/tokens", tags=["access"])


class TokenIn(BaseModel):
    """A new token."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=tokens.NAME_CHARACTERS, description="What it is for.")
    scopes: list[Scope] = Field(min_length=1)
    days: float | None = Field(
        default=None,
        gt=0,
        le=tokens.LONGEST_DAYS,
        allow_inf_nan=False,
        description="Valid for so long; else for ever.",
    )


@router.get("")
async def list_tokens(deps: Wired, all: bool = False) -> dict[str, Any]:
    """The newest first; those that are over only with `all`."""
    async with deps.database.connection() as connection:
        return {"tokens": await tokens.list_tokens(connection, all_=all)}


@router.post("", status_code=201)
async def create_token(deps: Wired, given: TokenIn, response: Response) -> dict[str, Any]:
    """The token, which is shown this once."""
    caller = current_caller()
    assert caller is not None
    response.headers["Cache-Control"] = "no-store"
    async with deps.database.transaction() as connection:
        made = await tokens.create_token(
            connection, given.name, given.scopes, days=given.days, made_by=caller
        )
    tell_subject(f"{made.id} {made.name}: {'+'.join(made.scopes)}")
    return asdict(made)


@router.delete("/{token_id}")
async def revoke_token(deps: Wired, token_id: Id) -> dict[str, Any]:
    """It works no more, on any server."""
    async with deps.database.transaction() as connection:
        name = await tokens.revoke_token(connection, token_id)
    tell_subject(f"{token_id} {name}")
    return {"id": token_id, "name": name}
