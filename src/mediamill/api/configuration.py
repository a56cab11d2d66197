"""The configuration table: values that are the same for all machines. A bad value changes nothing."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from mediamill.api.deps import Wired
from mediamill.conversations import configuration

router = APIRouter(prefix="/api/configuration", tags=["configuration"])


class ConfigurationIn(BaseModel):
    """The new value."""

    model_config = ConfigDict(extra="forbid")

    value: Any


@router.get("")
async def list_configuration(deps: Wired) -> dict[str, Any]:
    """Every value in force, by its name."""
    async with deps.database.connection() as connection:
        return {"configuration": await configuration.list_configuration(connection)}


@router.get("/{name}")
async def show_value(deps: Wired, name: str) -> dict[str, Any]:
    """One value."""
    async with deps.database.connection() as connection:
        return {"name": name, "value": await configuration.get_value(connection, name)}


@router.put("/{name}")
async def set_value(deps: Wired, name: str, given: ConfigurationIn) -> dict[str, Any]:
    """Set one; it is in force at once. null is the default again."""
    return await _set(deps, name, given.value)


@router.delete("/{name}")
async def unset_value(deps: Wired, name: str) -> dict[str, Any]:
    """The default again."""
    return await _set(deps, name, None)


async def _set(deps: Wired, name: str, value: Any) -> dict[str, Any]:
    async with deps.database.transaction() as connection:
        await configuration.set_value(connection, name, value)
        return {"name": name, "value": await configuration.get_value(connection, name)}
