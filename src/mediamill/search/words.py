"""Finding by words, at about the same cost in twenty thousand rows and in ten million.

A common word is in a million rows, and an index of words reads all of them. So in a large table the planner is asked
first how many rows there may be. Few are read at once. Of many, the newest are asked first, then blocks of rows that
are spread over the table, as many as should have a page or more, then more by what was found so far, then all; whoever
has found enough stops. The index knows of each row its block, library, type and model (the SQL function search_keys),
so that what is not asked for is not read either.

Of a phrase the index knows which two words follow each other (the SQL function word_pairs), so nearly every row that it
names has the phrase. Where a phrase is one of several things that would do (`or`), it does not help: rows that have the
words are looked at, and after a hundred thousand of them in which it is not, it is given up.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from asyncpg import QueryCanceledError

from mediamill.db.connection import Connection
from mediamill.db.queries import Query
from mediamill.search.fuse import Row
from mediamill.search.store import queries

ENOUGH = 200  # to look no further
ENOUGH_OF_MANY = 30  # to look no further if that means to look at many
MANY = 2_000  # rows that have several words, or a phrase: of so many or fewer, all are asked for at once
MANY_OF_WORD = 10_000  # of one word, that costs less; and the planner thinks of many if it does not know it
MOST_LOOKED_AT = 100_000  # rows that have the words of a phrase
MOST_FOUND = 500  # of one step, the best
MOST_RANKED = 1000  # of one step, where these may be all
SOME_RANKED = 500  # where they are not: each is a look at a row somewhere in a large table
BLOCK_SHIFT = 14  # a block is 16,384 ids
SMALL = 4 << BLOCK_SHIFT  # rows of a table that is asked at once
FEWEST_BLOCKS, MOST_BLOCKS = 4, 64  # of a step; of more, each costs too much
WIDEN_LEAST, WIDEN_MOST = 2, 8
# As search_keys has them: what a key is about is in its last three bits.
BLOCK, LIBRARY, MODEL, SORT = 0, 2, 3, 4
MOST_LIBRARIES = 200
MOST_PAIRS = 4  # that the planner is asked about
_RUN = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff]{2,}")  # as the SQL function folded has them
_OR = re.compile(r"\bor\b", re.IGNORECASE)
_SEVERAL = re.compile("[&|<]")  # in what the database made of words
_NOT = re.compile(r"-\W*$")
SORTS = {"image": 1, "video": 2, "message": 3, "file": 4}


@dataclass(frozen=True, slots=True)
class Asked:
    """`query`: what a row must match. Of the index: `words`, and `pairs` of words that follow each other, if any."""

    query: str
    words: str | None
    pairs: list[int] | None


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
    some_hidden: bool = True  # there are libraries that may not be seen, or are not asked for

    @property
    def dates(self) -> dict[str, Any]:
        """As the statements about entries want them."""
        return {"since": self.since, "until": self.until}

    @property
    def local_dates(self) -> dict[str, Any]:
        """As those about assets want them: a day is a day, wherever a photo was taken."""
        return {f"local_{name}": at and at.replace(tzinfo=None) for name, at in self.dates.items()}

    @property
    def some_types(self) -> list[str] | None:
        """None: any."""
        return list(self.types) or None


def as_phrases(words: str) -> str:
    """Chinese and Japanese have no spaces, and each character is a word of its own: several of them are a phrase."""
    parts = unicodedata.normalize("NFKC", words).split('"')
    return '"'.join(part if number % 2 else _RUN.sub(r'"\g<0>"', part) for number, part in enumerate(parts))


def needed_phrases(words: str) -> tuple[list[str], str]:
    """Of what as_phrases made: those without which nothing is found, and the words that are in no phrase."""
    plain, quoted = words.split('"')[::2], words.split('"')[1::2]
    if any(_OR.search(part) for part in plain):
        return [], words
    needed = [part for before, part in zip(plain, quoted, strict=False) if not _NOT.search(before)]
    return needed, " ".join(_NOT.sub("", part) for part in plain)


async def find_words(connection: Connection, asked: Asked, narrow: Narrow) -> list[Row]:
    """Everything that has these words, the best first."""
    newest = await queries.newest_ids.row(connection)
    assert newest is not None
    found: list[tuple[float, int, int, Row]] = []
    for of, statement, given in _tables(narrow):
        if not newest[of]:
            continue
        for row in await _widen(connection, statement, newest[of], {**given, **asdict(asked)}):
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
            "libraries": _library_keys(narrow.libraries) if narrow.some_hidden else None,
            "models": models,
            **narrow.local_dates,
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
    """Step by step, until there is enough. What takes too long is left with what was found before."""
    found: dict[int, Any] = {}
    with suppress(QueryCanceledError):
        async with connection.transaction():
            expected = await _expect(connection, statement, given) if newest > SMALL else 0
            wider = Widening(newest, expected, given["query"])
            while not wider.is_over(len(found)):
                rows = await statement.rows(
                    connection, **given, ranges=wider.keys(), most=wider.most, amount=MOST_FOUND
                )
                found |= {row["id"]: row for row in rows}
                wider.widen(len(found))
    return list(found.values())


async def _expect(connection: Connection, statement: Query, given: dict[str, Any]) -> int:
    """How many rows have the words and pass the filters, as the planner thinks.

    Of a phrase, how many have the rarest pair of its words; it would multiply the chances of words that come together.
    """
    if not given["pairs"]:
        return await _planned(connection, statement, given)
    some = [given | {"words": None, "pairs": [pair]} for pair in given["pairs"][:MOST_PAIRS]]
    return min([await _planned(connection, statement, one) for one in some])


async def _planned(connection: Connection, statement: Query, given: dict[str, Any]) -> int:
    explain = Query(statement.name, f"explain (format json) {statement.sql}", statement.parameters)
    text = await explain.value(connection, **given, ranges=None, most=MOST_RANKED, amount=MOST_FOUND)
    node = json.loads(text)[0]["Plan"]
    while "Relation Name" not in node and node.get("Plans"):
        node = node["Plans"][0]
    return int(node["Plan Rows"])


@dataclass(slots=True)
class Widening:
    """Which rows are asked next. `expected`: how many rows may have the words; `blocks`: of the next step.

    0 blocks: the newest; as many as there are: the whole table.
    """

    newest: int
    expected: int
    query: str
    blocks: int = 0
    asked_all: bool = False

    def __post_init__(self) -> None:
        """Few rows: at once."""
        if self.expected <= (MANY if _SEVERAL.search(self.query) else MANY_OF_WORD):
            self.blocks = self._all

    @property
    def most(self) -> int:
        """How many rows of a step are ranked."""
        return MOST_RANKED if self.expected <= MANY else SOME_RANKED

    @property
    def _all(self) -> int:
        return (self.newest >> BLOCK_SHIFT) + 1

    def is_over(self, found: int) -> bool:
        """There is enough, for what the next step costs; or there is no next step."""
        behind = self.expected * self.blocks / self._all
        enough = ENOUGH if behind <= MANY else ENOUGH_OF_MANY
        in_vain = "<" in self.query and behind > MOST_LOOKED_AT
        return self.asked_all or found >= enough or in_vain

    def keys(self) -> list[int] | None:
        """Of the blocks of this step; None: of all."""
        if self.blocks == 0:
            return [key(BLOCK, self._all - 1), key(BLOCK, self._all - 2)]
        if self.blocks == self._all:
            return None
        return [key(BLOCK, number * self._all // self.blocks) for number in range(self.blocks)]

    def widen(self, found: int) -> None:
        """By what should be there at first, then by what was there."""
        self.asked_all = self.blocks == self._all
        if self.blocks == 0:
            wanted = math.ceil(2 * ENOUGH * self._all / self.expected)
        else:
            factor = 2 * ENOUGH_OF_MANY / max(found, 1)
            wanted = math.ceil(self.blocks * min(max(factor, WIDEN_LEAST), WIDEN_MOST))
        few = max(wanted, FEWEST_BLOCKS)
        self.blocks = few if few <= min(MOST_BLOCKS, self._all // 2) else self._all


def key(about: int, value: int) -> int:
    """As search_keys makes it."""
    return (value << 3) + about
