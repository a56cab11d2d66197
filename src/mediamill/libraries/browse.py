"""Looking through a library by time: a stretch of it, from any place on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mediamill.db.connection import Connection
from mediamill.libraries.cursors import NEWEST, OLDEST, Place, read_month, read_place, write_place
from mediamill.libraries.look import find_library
from mediamill.libraries.model import STATUSES, TYPES
from mediamill.libraries.store import queries


async def list_stretch(
    connection: Connection,
    slug: str,
    *,
    month: str | None = None,
    after: str | None = None,
    skip: int = 0,
    types: Sequence[str] = TYPES,
    statuses: Sequence[str] = STATUSES,
    amount: int = 100,
) -> dict[str, Any]:
    """Newest first: `assets`, the place of the `last` of them, and whether there is `more`.

    `skip` is for jumps: it costs what it leaves out.
    """
    until, since = read_month(month) if month else (NEWEST, OLDEST)
    until = read_place(after) if after else until
    rows = await queries.list_stretch.rows(
        connection,
        library=(await find_library(connection, slug))["number"],
        until=until.shown_at,
        until_id=until.id,
        since=since.shown_at,
        since_id=since.id,
        types=list(types),
        statuses=list(statuses),
        skip=skip,
        amount=amount + 1,
    )
    shown = [dict(row) for row in rows[:amount]]
    last = write_place(Place(shown[-1]["shown_at"], shown[-1]["id"])) if shown else None
    return {"assets": shown, "last": last, "more": len(rows) > amount}


async def list_names(connection: Connection) -> list[dict[str, Any]]:
    """Slug and name of every library, without counting what is in it."""
    rows = await queries.list_libraries.rows(connection, trash=False)
    return [{"slug": row["slug"], "name": row["name"]} for row in rows]
