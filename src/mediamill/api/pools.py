"""Pools: see them, replace them all, change one, drop one. A fault changes nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from mediamill.api.deps import Wired
from mediamill.engine import pools, watch
from mediamill.processors.registry import processor_names, with_processor_name

router = APIRouter(prefix="/api/pools", tags=["pools"])

Definition = dict[str, Any]
Definitions = Annotated[list[Definition], Body(max_length=200)]


@router.get("")
async def list_pools(deps: Wired) -> dict[str, Any]:
    """Definitions and depths."""
    async with deps.database.connection() as connection:
        found = await pools.list_pools(connection)
        depths = {depth.pop("pool"): depth for depth in await watch.pool_depths(connection)}
    return {"pools": [{**pool.as_dict(), "jobs": depths.get(pool.name, {})} for pool in found]}


@router.put("")
async def replace_pools(deps: Wired, definitions: Definitions) -> dict[str, Any]:
    """The whole set anew; jobs of pools that go move to the catch-all."""
    return await _set(deps, definitions, replace=True)


@router.put("/{name}")
async def set_pool(deps: Wired, name: str, definition: Definition) -> dict[str, Any]:
    """One pool; settings that are not named keep their value."""
    return await _set(deps, [{**definition, "name": name}])


@router.delete("/{name}")
async def drop_pool(deps: Wired, name: str) -> dict[str, Any]:
    """Drop one pool; its jobs move to the catch-all."""
    return await _set(deps, [], drop=[name])


async def _set(
    deps: Wired, definitions: list[Definition], *, replace: bool = False, drop: list[str] | None = None
) -> dict[str, Any]:
    named = [with_processor_name(definition) for definition in definitions]
    async with deps.database.transaction() as connection:
        stand = await pools.set_pools(connection, named, processor_names(), replace=replace, drop=drop or ())
    return {"pools": [pool.as_dict() for pool in stand]}
