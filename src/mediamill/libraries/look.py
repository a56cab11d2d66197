"""Looking at libraries: the list, and one with what is in it."""

from __future__ import annotations

import json
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.libraries.counts import total_counts
from mediamill.libraries.model import UnknownLibraryError
from mediamill.libraries.store import queries

HIDDEN = ("scan_token", "retag_after")


async def find_library(connection: Connection, slug: str, *, trash: bool = False) -> Record:
    """The row of a library; one in the trash is not there, unless it is asked for."""
    row = await queries.find_library.row(connection, slug=slug)
    if row is None or (row["deleted_at"] is not None and not trash):
        raise UnknownLibraryError(
            f"there is no library {slug[:100]!r}", fix="mediamill library list shows them"
        )
    return row


async def list_libraries(connection: Connection, *, trash: bool = False) -> list[dict[str, Any]]:
    """By name, each with its counts."""
    rows = await queries.list_libraries.rows(connection, trash=trash)
    counts = await total_counts(connection, [row["number"] for row in rows])
    return [{**_plain(row), **counts[row["number"]]} for row in rows]


async def show_library(connection: Connection, slug: str, *, trash: bool = False) -> dict[str, Any]:
    """One of them."""
    row = await find_library(connection, slug, trash=trash)
    return {**_plain(row), **(await total_counts(connection, [row["number"]]))[row["number"]]}


def _plain(row: Record) -> dict[str, Any]:
    told = {name: value for name, value in row.items() if name not in HIDDEN}
    for name in ("scan_counts", "sampling_policy"):
        told[name] = json.loads(told[name])
    return told
