"""The configuration table: a few values that are the same for all machines and can be changed while everything runs."""

from __future__ import annotations

import json
from typing import Any

from mediamill.conversations import media_pools
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection
from mediamill.errors import InvalidError, NotFoundError

QUOTA = "media_storage_quota_gb"
DEFAULT_QUOTA_GB = 25.0
NAMES = {
    QUOTA: "Gigabytes that media which wait to be processed may take up (25 if not set).",
    media_pools.NAME: "Which processor gets which media, how many at once, for how long: the pools as a document.",
}


class UnknownNameError(NotFoundError):
    """There is no such value in the configuration."""

    code = "unknown_configuration"


class BadValueError(InvalidError):
    """The value does not fit."""

    code = "bad_configuration"


async def quota_gb(connection: Connection) -> float:
    """How many gigabytes media that wait may take up."""
    value = await queries.get_configuration.value(connection, name=QUOTA)
    return DEFAULT_QUOTA_GB if value is None else float(json.loads(value))


async def list_configuration(connection: Connection) -> dict[str, Any]:
    """Every value that is in force."""
    kept = {
        row["name"]: json.loads(row["value"]) for row in await queries.list_configuration.rows(connection)
    }
    return {
        QUOTA: DEFAULT_QUOTA_GB,
        **kept,
        media_pools.NAME: await media_pools.read_definitions(connection),
    }


async def get_value(connection: Connection, name: str) -> Any:
    """The value in force."""
    check_name(name)
    return (await list_configuration(connection))[name]


def check_name(name: str) -> None:
    """Is there such a value?"""
    if name not in NAMES:
        raise UnknownNameError(f"there is no configuration value {name}", fix=f"known: {', '.join(NAMES)}")


async def set_value(connection: Connection, name: str, value: Any) -> None:
    """Set one; whoever runs bots is told. None: back to the default."""
    check_name(name)
    if name == media_pools.NAME:
        given = media_pools.default_definitions() if value is None else value
        await media_pools.apply_definitions(connection, given)
        return
    if value is None:
        await queries.unset_configuration.row(connection, name=name)
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1_000_000:
        raise BadValueError(f"{name} must be a number of gigabytes above 0")
    await queries.set_configuration.row(connection, name=name, value=json.dumps(value))
