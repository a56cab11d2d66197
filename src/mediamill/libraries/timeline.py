"""The months of a library: how many assets are of which, and where in a list one begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mediamill.db.connection import Connection
from mediamill.libraries.counts import month_counts
from mediamill.libraries.cursors import read_month, write_place
from mediamill.libraries.look import find_library
from mediamill.libraries.model import STATUSES, TYPES


async def timeline(
    connection: Connection, slug: str, types: Sequence[str] = TYPES, statuses: Sequence[str] = STATUSES
) -> list[dict[str, Any]]:
    """[{"month": "2024-05", "count": 7}, …], newest first, by the local time where each was taken."""
    library = await find_library(connection, slug)
    return await month_counts(connection, library["number"], types, statuses)


async def newest_of_month(connection: Connection, slug: str, month: str) -> str:
    """The place from which a list goes on (`after`) with the newest of a month, and then with what is older."""
    await find_library(connection, slug)
    return write_place(read_month(month)[0])
