"""How many assets of each type, status and month a library has.

Counting millions takes a second, so for a large library the counts are kept, with it, and made anew beside whoever
asks, if something moves, and the less often the more there is to count. A small one is counted whenever somebody asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from asyncpg import Record

from mediamill.db.connection import LOST, Connection, Database
from mediamill.libraries.model import STATUSES, TYPES
from mediamill.libraries.store import queries

log = logging.getLogger(__name__)

SMALL = 20_000  # assets that are counted while somebody waits
FRESH_SECONDS = 5.0
ASSETS_PER_SECOND = 20_000  # so many more assets let a count be a second older
STILL_SECONDS = 3600.0  # even if nothing seems to move
NOBODY_COUNTS = 10  # times as old: no server is there to count
LOOK_SECONDS = 2.0
COLUMNS = ("type", "status", "month", "assets", "bytes")


async def total_counts(connection: Connection, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    """By number of the library: `assets`, `bytes`, `vanished`, and how many of each of `types` and `statuses`."""
    told, kept = {number: _nothing() for number in numbers}, []
    for library in await queries.read_counting.rows(connection, libraries=list(numbers)):
        counted = await _count_unless_kept(connection, library)
        if counted is None:
            kept.append(library["number"])
        else:
            _add(told[library["number"]], counted)
    for row in await queries.kept_totals.rows(connection, libraries=kept) if kept else ():
        _add(told[row["library"]], [row])
    return told


async def month_counts(
    connection: Connection, number: int, types: Sequence[str], statuses: Sequence[str]
) -> list[dict[str, Any]]:
    """[{"month": "2024-05", "count": 7}, …], newest first, of what has not vanished."""
    (library,) = await queries.read_counting.rows(connection, libraries=[number])
    counted = await _count_unless_kept(connection, library)
    if counted is None:
        given = {"library": number, "types": list(types), "statuses": list(statuses)}
        rows = await queries.kept_months.rows(connection, **given)
        return [{"month": row["month"], "count": row["assets"]} for row in rows]
    months: dict[str, int] = {}
    for row in counted:
        if row["month"] is not None and row["type"] in types and row["status"] in statuses:
            months[row["month"]] = months.get(row["month"], 0) + row["assets"]
    return [{"month": month, "count": months[month]} for month in sorted(months, reverse=True)]


async def count_forever(database: Database) -> None:
    """The background task of the server."""
    while True:
        try:
            await recount_old(database)
        except LOST as error:
            log.debug("counting assets: the database is away: %s", error)
        except Exception:
            log.exception("counting assets failed")
        await asyncio.sleep(LOOK_SECONDS)


async def recount_old(database: Database) -> int:
    """Those whose counts are too old; how many."""
    async with database.connection() as connection:
        kept = await queries.read_counting.rows(connection, libraries=None)
        old = [library for library in kept if _is_old(library)]
        return sum([await _recount(connection, library) is not None for library in old])


async def _count_unless_kept(connection: Connection, library: Record) -> Sequence[Record] | None:
    """None: what is kept is good, or the best there is."""
    if library["counted_at"] is None or _is_old(library, NOBODY_COUNTS):
        return await _recount(connection, library)
    return None


async def _recount(connection: Connection, library: Record) -> Sequence[Record] | None:
    """Kept if there is much. None: somebody else is counting, and there is something to go by meanwhile."""
    number = library["number"]
    async with connection.transaction():
        mine = await queries.may_count.value(connection, library=number)
        if not mine and library["counted_at"] is not None:
            return None
        counted = await queries.count_assets.rows(connection, library=number)
        if mine:
            await _keep(connection, library, counted)
    return counted


async def _keep(connection: Connection, library: Record, counted: Sequence[Record]) -> None:
    number, total = library["number"], sum(row["assets"] for row in counted)
    if library["counted_at"] is not None:
        await queries.drop_counts.run(connection, library=number)
    if total > SMALL:
        given = {name: [row[name] for row in counted] for name in COLUMNS}
        await queries.note_counted.run(connection, library=number, assets=total, moving=library["is_moving"])
        await queries.put_counts.run(connection, library=number, **given)
    elif library["counted_at"] is not None:
        await queries.forget_counted.run(connection, library=number)


def _is_old(library: Record, factor: float = 1) -> bool:
    """What moved while it was counted is counted once more."""
    moves = library["is_moving"] or library["was_moving"]
    seconds = FRESH_SECONDS + library["assets"] / ASSETS_PER_SECOND if moves else STILL_SECONDS
    return bool(library["age_seconds"] > seconds * factor)


def _nothing() -> dict[str, Any]:
    counts = {"statuses": dict.fromkeys(STATUSES, 0), "types": dict.fromkeys(TYPES, 0)}
    return {**counts, "assets": 0, "bytes": 0, "vanished": 0}


def _add(told: dict[str, Any], counted: Iterable[Record]) -> None:
    for row in counted:
        told["statuses"][row["status"]] += row["assets"]
        told["types"][row["type"]] += row["assets"]
        told["assets"] += row["assets"]
        told["bytes"] += row["bytes"]
        told["vanished"] += row["vanished"]
