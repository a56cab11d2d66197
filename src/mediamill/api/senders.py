"""Who may talk to a bot: list, pair by code, allow, block, forget."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from mediamill.api.deps import Wired
from mediamill.conversations import senders

router = APIRouter(prefix="/api/bots/{bot_id}", tags=["bots"])


class CodeIn(BaseModel):
    """The code that a stranger was given."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1, max_length=50)


class DecisionIn(BaseModel):
    """What the owner decides."""

    model_config = ConfigDict(extra="forbid")

    state: Literal["allowed", "blocked"]


@router.get("/senders")
async def list_senders(deps: Wired, bot_id: str) -> dict[str, Any]:
    """Those who wait with a code, are allowed, or are blocked; with what they have used today (UTC)."""
    async with deps.database.connection() as connection:
        return {"senders": await senders.list_senders(connection, bot_id)}


@router.post("/pair")
async def pair_sender(deps: Wired, bot_id: str, given: CodeIn) -> dict[str, Any]:
    """Whoever was given this code may talk to the bot from now on, and is told so."""
    async with deps.database.transaction() as connection:
        return await senders.pair_sender(connection, bot_id, given.code)


@router.put("/senders/{provider}/{sender:path}")
async def decide_sender(
    deps: Wired, bot_id: str, provider: str, sender: str, given: DecisionIn
) -> dict[str, Any]:
    """Allow or block a person or a group, from the next message on."""
    async with deps.database.transaction() as connection:
        return await senders.decide_sender(connection, bot_id, provider, sender, given.state)


@router.delete("/senders/{provider}/{sender:path}")
async def forget_sender(deps: Wired, bot_id: str, provider: str, sender: str) -> dict[str, Any]:
    """Neither allowed nor blocked: a stranger again."""
    async with deps.database.transaction() as connection:
        return await senders.forget_sender(connection, bot_id, provider, sender)
