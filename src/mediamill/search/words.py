"""Finding by words, at the same cost in twenty thousand rows and in ten million.

A common word is in a million rows, and an index of words reads all of them. So the newest are asked first, then a
sample that is spread over everything, then one that is eight times as large, and so on to all; whoever has found enough
stops. A rare word comes to the end, but costs little there. The index knows of each row to which of these it belongs,
and its library, type and model (the SQL function search_keys), so that what is filtered out is not read either.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from asyncpg import QueryCanceledError

from mediamill.db.connection import Connection
from mediamill.db.queries import Query
from mediamill.search.fuse import Row
from mediamill.search.store import queries

ENOUGH = 200  # to look no further
MOST_FOUND = 500  # of one step, the best
MOST_RANKED = 2000  # of one step
NEWEST_SHIFT = 14  # the newest 16,384 ids, and the block before
# As search_keys has them: what a key is about is in its last three bits.
NEWEST, SAMPLE, LIBRARY, MODEL, SORT = range(5)
SAMPLES = ((512, 2), (64, 1), (8, 0))  # one row in so many, and the key's value
SAMPLE_ROWS = 16_000  # a sample of fewer is not worth asking
MOST_LIBRARIES = 200
_RUN = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff]{2,}")  # as the SQL function folded has them
SORTS = {"image": 1, "video": 2, "message": 3, "file": 4}


@dataclass(frozen=True, slots=True)
class Narrow:
    """The filters, as numbers. `libraries`: those that may be seen at all; None: nothing of a library is wanted.

    `sources`: of entries; empty: no entries are wanted.
    """

    libraries: tuple[int, ...] | None
    sources: tuple[str, ...]
    types: tuple[str, ...]
    since: datetime | None
    until: datetime | None
    tagger: int | None

    @property
    def dates(self) -> dict[str, Any]:
        """As the statements want them."""
        return {"since": self.since, "until": self.until}

    @property
    def some_types(self) -> list[str] | None:
        """None: any."""
        return list(self.types) or None


def as_phrases(words: str) -> str:
    """Chinese and Japanese have no spaces, and each character is a word of its own: several of them are a phrase."""
    parts = unicodedata.normalize("NFKC", words).split('"')
    return '"'.join(part if number % 2 else _RUN.sub(r'"\g<0>"', part) for number, part in enumerate(parts))


async def find_words(connection: Connection, query: str, narrow: Narrow) -> list[Row]:
    """Everything that has these words, the best first."""
    newest = await queries.newest_ids.row(connection)
    assert newest is not None
    found: list[tuple[float, int, int, Row]] = []
    for of, statement, given in _tables(narrow):
        for row in await _widen(connection, statement, newest[of], {**given, "query": query}):
            subject = (row["source"], row["subject"]) if of == "entry" else ("asset", str(row["asset_id"]))
            whole = row["id"] if of == "entry" else row["asset_id"]
            found.append((-row["rank"], -whole, row["id"], Row(subject, of, row["id"])))
    found.sort(key=lambda one: one[:3])  # of equals the newest, and of a video the earliest moment
    return [row for *_, row in found]


def _tables(narrow: Narrow) -> Iterator[tuple[str, Query, dict[str, Any]]]:
    models = None if narrow.tagger is None else [key(MODEL, narrow.tagger)]
    if narrow.libraries is not None:
        types = [name for name in narrow.types if name in ("image", "video")]
        given = {
            "libraries": _library_keys(narrow.libraries),
            "models": models,
            **narrow.dates,
        }
        if types or not narrow.types:
            yield (
                "asset",
                queries.asset_words,
                given | {"sorts": [key(SORT, SORTS[t]) for t in types] or None},
            )
        if "video" in narrow.types or not narrow.types:
            yield "scene", queries.scene_words, given
            yield "frame", queries.frame_words, given
    if narrow.sources and narrow.tagger is None:
        sorts = [key(SORT, SORTS[source]) for source in narrow.sources]
        yield "entry", queries.entry_words, {"sorts": sorts, "types": narrow.some_types, **narrow.dates}


def _library_keys(numbers: tuple[int, ...]) -> list[int] | None:
    """So many that asking for each costs more than it saves are left to the last filter."""
    return None if len(numbers) > MOST_LIBRARIES else [key(LIBRARY, number) for number in numbers]


async def _widen(connection: Connection, statement: Query, newest: int, given: dict[str, Any]) -> list[Any]:
    """From the newest to everything, until there is enough. What takes too long is left with what was found before."""
    found: dict[int, Any] = {}
    with suppress(QueryCanceledError):
        for ranges in steps(newest):
            async with connection.transaction():
                rows = await statement.rows(
                    connection, **given, ranges=ranges, most=MOST_RANKED, amount=MOST_FOUND
                )
            found |= {row["id"]: row for row in rows}
            if len(found) >= ENOUGH:
                break
    return list(found.values())


def steps(newest: int) -> list[list[int] | None]:
    """Which rows to ask, one after the other; None: all. A small table is asked at once."""
    block = newest >> NEWEST_SHIFT
    if newest <= 4 << NEWEST_SHIFT:
        return [None]
    samples = [[key(SAMPLE, value)] for share, value in SAMPLES if newest // share >= SAMPLE_ROWS]
    return [[key(NEWEST, block), key(NEWEST, block - 1)], *samples, None]


def key(about: int, value: int) -> int:
    """As search_keys makes it."""
    return (value << 3) + about
