"""Looking at libraries: the list, and one with what is in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.libraries.counts import total_counts
from mediamill.libraries.model import UnknownLibraryError
from mediamill.libraries.store import queries

HIDDEN = ("scan_token", "retag_after", "warned_at")
WARNED = timedelta(minutes=3)  # a warning that nobody has repeated for so long is over


async def find_library(connection: Connection, slug: str, *, trash: bool = False) -> Record:
    """The row of a library; one in the trash is not there, unless it is asked for."""
    return _known(await queries.find_library.row(connection, slug=slug), slug, trash=trash)


async def lock_library(connection: Connection, slug: str, *, trash: bool = False) -> Record:
    """As find_library, to be changed: whoever else wants to change it waits, and then sees what became of it."""
    return _known(await queries.lock_library.row(connection, slug=slug), slug, trash=trash)


def _known(row: Record | None, slug: str, *, trash: bool) -> Record:
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
    told["scan_counts"].pop("newest", None)  # what a scan that goes on must know, and nobody else
    if row["warned_at"] is None or row["warned_at"] < datetime.now(UTC) - WARNED:
        told["warning"] = None
    return told
