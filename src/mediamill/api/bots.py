"""Bots: list, create, show, change, start, stop, delete."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from mediamill.api.deps import Wired
from mediamill.conversations import bots

router = APIRouter(prefix="/api/bots", tags=["bots"])


class ConfigIn(BaseModel):
    """The whole configuration of a bot; what is left out has its default."""

    model_config = ConfigDict(extra="forbid")

    config: dict[str, Any] = Field(default_factory=dict)


class BotIn(ConfigIn):
    """A new bot."""

    id: str = Field(max_length=200)
    start: bool = False


@router.get("")
async def list_bots(deps: Wired) -> dict[str, Any]:
    """All bots, with what their providers say of themselves."""
    async with deps.database.connection() as connection:
        return {"bots": await bots.list_bots(connection)}


@router.post("", status_code=201)
async def create_bot(deps: Wired, bot: BotIn) -> dict[str, Any]:
    """A new bot; with `start` it runs from now on."""
    config = bots.check_config(bot.config, deps.keeper.provider_names)
    async with deps.database.transaction() as connection:
        await bots.create_bot(connection, bot.id, config)
        if bot.start:
            await bots.start_bot(connection, bot.id)
        return await bots.show_bot(connection, bot.id)


@router.get("/{bot_id}")
async def show_bot(deps: Wired, bot_id: str) -> dict[str, Any]:
    """One bot."""
    async with deps.database.connection() as connection:
        return await bots.show_bot(connection, bot_id)


@router.put("/{bot_id}")
async def change_bot(deps: Wired, bot_id: str, given: ConfigIn) -> dict[str, Any]:
    """Another configuration; a bot that runs is restarted with it."""
    config = bots.check_config(given.config, deps.keeper.provider_names)
    async with deps.database.transaction() as connection:
        await bots.change_bot(connection, bot_id, config)
        return await bots.show_bot(connection, bot_id)


@router.delete("/{bot_id}")
async def delete_bot(deps: Wired, bot_id: str) -> dict[str, str]:
    """A bot that is stopped, with all its conversations."""
    async with deps.database.transaction() as connection:
        await bots.delete_bot(connection, bot_id)
    return {"id": bot_id}


@router.post("/{bot_id}/start")
async def start_bot(deps: Wired, bot_id: str) -> dict[str, Any]:
    """It runs from now on, and after every start of the server."""
    async with deps.database.transaction() as connection:
        await bots.start_bot(connection, bot_id)
        return await bots.show_bot(connection, bot_id)


@router.post("/{bot_id}/stop")
async def stop_bot(deps: Wired, bot_id: str) -> dict[str, Any]:
    """It does not run any more; `held`: how many of its jobs wait for its return."""
    async with deps.database.transaction() as connection:
        held = await bots.stop_bot(connection, bot_id)
        return {**await bots.show_bot(connection, bot_id), "held": held}
