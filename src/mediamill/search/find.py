"""One ranked list over everything: by words, by meaning, by look; or more of the same; or simply the newest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from asyncpg import QueryCanceledError, Record

from mediamill.db.connection import Connection
from mediamill.db.pgvector import vector_support
from mediamill.errors import UnavailableError
from mediamill.search.fuse import Fused, Row, fuse
from mediamill.search.model import MOST_AFTER, Found, UnknownPlaceError, Wanted
from mediamill.search.nearest import find_like, find_near
from mediamill.search.show import show_page
from mediamill.search.store import queries
from mediamill.search.words import Asked, Narrow, as_phrases, find_words, needed_phrases

TIMEOUT = "2000"  # milliseconds for one statement
ENTRY_SOURCES = ("video", "message", "file")
STATUSES = ("proxied", "analyzing", "completed", "extracting", "pending", "failed", "poisoned")


class SearchTooSlowError(UnavailableError):
    """The database is too busy to search now."""

    code = "search_too_slow"


class NoPgvectorError(UnavailableError):
    """The database cannot compare vectors."""

    code = "no_pgvector"


async def search(connection: Connection, wanted: Wanted) -> Found:
    """What is wanted, best first. Whatever finds a thing, what may not be seen is left out at the end."""
    try:
        return await _search(connection, wanted)
    except QueryCanceledError:
        raise SearchTooSlowError(fix="try again in a moment") from None


async def _search(connection: Connection, wanted: Wanted) -> Found:
    async with connection.transaction():
        await queries.set_up.row(connection, timeout=TIMEOUT)
        narrow = await _narrow(connection, wanted)
        said = await _read_words(connection, wanted.words)
        lists = await _lists(connection, wanted, narrow, said)
        fused = fuse(await _visible_entries(connection, lists, narrow))
        end = wanted.after + wanted.amount
        seen = await _first_visible(connection, fused, narrow, end + 1)
        hits = await show_page(connection, seen[wanted.after : end], None if said is None else said["shown"])
        await queries.set_down.row(connection)
    return Found(hits, end if end < len(seen) and end <= MOST_AFTER else None, tuple(lists))


async def _narrow(connection: Connection, wanted: Wanted) -> Narrow:
    libraries = await queries.all_libraries.rows(connection)
    visible = {row["slug"]: row["number"] for row in libraries if not row["is_hidden"]}
    if wanted.library is not None and wanted.library not in visible:
        raise UnknownPlaceError(f"there is no library {wanted.library[:100]!r}")
    numbers = visible.values() if wanted.library is None else [visible[wanted.library]]
    sources = wanted.sources or ("library", *ENTRY_SOURCES)
    tagger = None
    if wanted.model is not None:  # one that nobody knows has tagged nothing
        tagger = await queries.find_model.value(connection, name=wanted.model.replace("\0", "")) or 0
    return Narrow(
        libraries=tuple(numbers) if "library" in sources else None,
        sources=() if wanted.library else tuple(source for source in ENTRY_SOURCES if source in sources),
        types=wanted.types,
        since=wanted.since,
        until=wanted.until,
        tagger=tagger,
        some_hidden=wanted.library is not None or len(visible) < len(libraries),
    )


async def _read_words(connection: Connection, words: str) -> Record | None:
    """As the database asks for them, and as it marks them in texts; None if there is nothing to ask for."""
    if not words:
        return None
    words = as_phrases(words)
    phrases, rest = needed_phrases(words)
    row = await queries.read_words.row(connection, words=words, phrases=phrases, rest=rest)
    return row if row is not None and row["nodes"] else None


async def _lists(
    connection: Connection, wanted: Wanted, narrow: Narrow, said: Record | None
) -> dict[str, list[Row]]:
    lists: dict[str, list[Row]] = {}
    if wanted.is_open:
        return {"newest": await _newest(connection, wanted, narrow)}
    if said is not None:
        asked = Asked(said["query"], said["words"], said["pairs"])
        lists["words"] = await find_words(connection, asked, narrow)
    by_vectors = wanted.meaning or wanted.look or wanted.older or wanted.like
    if not by_vectors or not await _can_compare(connection, wanted):
        return lists
    if wanted.meaning is not None:
        lists["meaning"] = await find_near(connection, wanted.meaning, narrow)
    if wanted.look is not None:
        lists["look"] = await find_near(connection, wanted.look, narrow)
    for way, vector in wanted.older:
        lists[way] = _mix(lists.get(way, []), await find_near(connection, vector, narrow))
    if wanted.like is not None:
        alike = await find_like(connection, wanted.like, narrow)
        lists["like"] = _mix(*alike)
    return lists


async def _can_compare(connection: Connection, wanted: Wanted) -> bool:
    """Whether there are vectors to compare with; what can be found by nothing else is refused."""
    support = await vector_support(connection)
    if wanted.like is not None and not support.is_ready:
        raise NoPgvectorError(f"what is alike is found by vectors, but {support.message}", fix=support.fix)
    return support.is_ready


def _mix(*ranked: list[Row]) -> list[Row]:
    """What several models found, in turn: their likenesses cannot be compared."""
    return list(dict.fromkeys(row for rows in zip_longest(*ranked) for row in rows if row is not None))


async def _newest(connection: Connection, wanted: Wanted, narrow: Narrow) -> list[Row]:
    amount = wanted.after + wanted.amount + 1
    found: list[tuple[datetime, Row]] = []
    types = [name for name in ("image", "video") if not narrow.types or name in narrow.types]
    rows = await queries.newest_assets.rows(
        connection,
        libraries=list(narrow.libraries or ()),
        types=types,
        statuses=list(STATUSES),
        tagger=narrow.tagger,
        amount=amount,
        **narrow.local_dates,
    )
    found += [(row["shown_at"], Row(("asset", str(row["id"])), "asset", row["id"])) for row in rows]
    if narrow.sources and narrow.tagger is None:
        rows = await queries.newest_entries.rows(
            connection,
            sources=list(narrow.sources),
            types=narrow.some_types,
            amount=amount,
            **narrow.dates,
        )
        found += [
            (
                row["happened_at"].astimezone(UTC).replace(tzinfo=None),
                Row((row["source"], row["subject"]), "entry", row["id"]),
            )
            for row in rows
        ]
    found.sort(key=lambda one: one[0], reverse=True)  # of a photo, only the local time is known
    return [row for _, row in found[:amount]]


async def _visible_entries(
    connection: Connection, lists: dict[str, list[Row]], narrow: Narrow
) -> dict[str, list[Row]]:
    """Without entries that do not pass the filters; the others with their subjects."""
    ids = {row.id for ranked in lists.values() for row in ranked if row.of == "entry"}
    if not ids:
        return lists
    entries = await queries.visible_entries.rows(
        connection,
        ids=list(ids),
        sources=list(narrow.sources),
        types=narrow.some_types,
        **narrow.dates,
    )
    subjects = {row["id"]: (row["source"], row["subject"]) for row in entries}

    def seen(ranked: Sequence[Row]) -> list[Row]:
        return [
            Row(subjects[row.id], "entry", row.id) if row.of == "entry" else row
            for row in ranked
            if row.of != "entry" or row.id in subjects
        ]

    return {way: seen(ranked) for way, ranked in lists.items()}


async def _first_visible(
    connection: Connection, fused: Sequence[Fused], narrow: Narrow, amount: int
) -> list[Fused]:
    """The best, without assets that vanished, are in the trash, or do not pass the filters.

    Looked at no further than it takes: each look is a row somewhere in a large table.
    """
    seen: list[Fused] = []
    for begin in range(0, len(fused), 2 * amount):
        some = fused[begin : begin + 2 * amount]
        ids = [int(one.subject[1]) for one in some if one.subject[0] == "asset"]
        visible = await _visible_assets(connection, ids, narrow) if ids else set()
        seen += [one for one in some if one.subject[0] != "asset" or one.subject in visible]
        if len(seen) >= amount:
            break
    return seen


async def _visible_assets(connection: Connection, ids: list[int], narrow: Narrow) -> set[tuple[str, str]]:
    found = await queries.visible_assets.rows(
        connection,
        ids=ids,
        libraries=list(narrow.libraries or ()),
        types=narrow.some_types,
        tagger=narrow.tagger,
        **narrow.local_dates,
    )
    return {("asset", str(row["id"])) for row in found}
