"""How many assets are of which month. Counting millions takes a second, so it is kept, and counted anew only if
something moves, and the less often the more there is to count.
"""

from __future__ import annotations

import json
from typing import Any

from mediamill.db.connection import Connection
from mediamill.libraries.cursors import read_month, write_place
from mediamill.libraries.look import find_library
from mediamill.libraries.model import STATUSES, TYPES, UnknownLibraryError
from mediamill.libraries.store import queries

FRESH_SECONDS = 5.0
ASSETS_PER_SECOND = 20_000  # so many more assets let a count be a second older
STILL_SECONDS = 3600.0  # even if nothing seems to move


async def timeline(connection: Connection, slug: str) -> list[dict[str, Any]]:
    """[{"month": "2024-05", "count": 7}, …], newest first, by UTC. Best in a transaction: only one counts at a time."""
    row = await queries.read_timeline.row(connection, slug=slug)
    if row is None:
        raise UnknownLibraryError(
            f"there is no library {slug[:100]!r}", fix="mediamill library list shows them"
        )
    kept = json.loads(row["timeline"])
    months: list[dict[str, Any]] = kept["months"] if isinstance(kept, dict) else []
    moving = row["moving"] or not isinstance(kept, dict) or kept["moving"]
    if _is_good(months, row["age_seconds"], moving=moving):
        return months
    if not await queries.may_count.value(connection, library=row["number"]):
        return months
    counted = await queries.count_by_month.rows(
        connection, library=row["number"], types=list(TYPES), statuses=list(STATUSES)
    )
    months = [dict(one) for one in counted]
    text = json.dumps({"months": months, "moving": row["moving"]})
    await queries.keep_timeline.run(connection, library=row["number"], timeline=text)
    return months


async def newest_of_month(connection: Connection, slug: str, month: str) -> str:
    """The place from which a list goes on (`after`) with the newest of a month, and then with what is older."""
    await find_library(connection, slug)
    return write_place(read_month(month)[0])


def _is_good(months: list[dict[str, Any]], age_seconds: float | None, *, moving: bool) -> bool:
    if age_seconds is None:
        return False
    total = sum(one["count"] for one in months)
    return age_seconds < (FRESH_SECONDS + total / ASSETS_PER_SECOND if moving else STILL_SECONDS)
