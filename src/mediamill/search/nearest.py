"""Finding by vectors: what is nearest to one, by meaning or by look.

Each model has an index of its own, over the signs of the numbers of its vectors (a bit each): a third of the size of
one over the vectors (docs/decisions/vectors-by-signs.md). What it finds is put in order by the vectors themselves. It
is read on until enough pass the filters; where only few are to be compared with (a small library, say), all of them
are, without the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.db.queries import Query
from mediamill.search.fuse import Row
from mediamill.search.model import BadSearchError, Like, QueryVector
from mediamill.search.store import queries
from mediamill.search.words import Narrow

FEW = 20_000
CANDIDATES = 400  # by the index; the ef_search of set_up is as large
NEAREST = 200  # of them, by the vectors
# Below these, what is near is not alike: one floor for entries, one for pictures, of which only a few words are said: a
# few words are nearer to any search than a text is. Those of the local models are measured
# (docs/decisions/near-enough.md); the others are guesses.
FLOORS = (("labels-", 0.68, 0.68), ("minilm", 0.32, 0.46), ("openai:", 0.25, 0.25), ("hub:", 0.18, 0.18))
OTHER_FLOORS = (0.33, 0.33)
ALIKE = 0.5  # two of the same sort are nearer to each other than to words


async def find_near(connection: Connection, wanted: QueryVector, narrow: Narrow) -> list[Row]:
    """The nearest first. A model that has seen nothing finds nothing."""
    model = await queries.model_vectors.row(connection, name=wanted.model)
    if model is None or model["dimensions"] is None:
        return []
    if len(wanted.vector) != model["dimensions"]:
        raise BadSearchError(
            f"{wanted.model} makes vectors of {model['dimensions']} numbers, not {len(wanted.vector)}"
        )
    vector = vector_text(wanted.vector)
    near = await _compare(connection, model["id"], model["dimensions"], vector, narrow)
    return [row for row, similarity in near if similarity >= floor_of(wanted.model, row.of)]


async def find_like(connection: Connection, like: Like, narrow: Narrow) -> list[list[Row]]:
    """By every model that has looked at it, what it takes for alike; without the thing itself."""
    visible = list(narrow.libraries or ())
    lists = []
    for seen in await queries.vectors_of.rows(connection, of=like.of, id=like.id, libraries=visible):
        near = await _compare(connection, seen["model_id"], seen["dimensions"], seen["v"], narrow)
        found = [row for row, similarity in near if similarity >= max(ALIKE, floor_of(seen["name"], row.of))]
        itself = {row.subject for row in found if (row.of, row.id) == (like.of, like.id)}
        itself.add((like.of, str(like.id)))  # a video is found by its moments
        lists.append([row for row in found if row.subject not in itself])
    return lists


async def _compare(
    connection: Connection, model_id: int, dimensions: int, vector: str, narrow: Narrow
) -> list[tuple[Row, float]]:
    """What is nearest, and how near: 1 is the same direction."""
    among = {
        "model_id": model_id,
        "libraries": list(narrow.libraries or ()),
        "entries": bool(narrow.sources) and narrow.tagger is None,
    }
    few = await queries.few_vectors.value(connection, **among, most=FEW + 1) <= FEW
    statement = queries.compare_all if few else nearest_of(dimensions)
    rows = await statement.rows(connection, **among, **_filters(narrow), v=vector, amount=CANDIDATES)
    return [(row_of(row), row["similarity"]) for row in rows[:NEAREST]]


def _filters(narrow: Narrow) -> dict[str, Any]:
    given = {
        "types": narrow.some_types,
        "tagger": narrow.tagger,
        "sources": list(narrow.sources),
        **narrow.dates,
        **narrow.local_dates,
    }
    some = len(narrow.sources) not in (0, 3) or any(
        value is not None for name, value in given.items() if name != "sources"
    )
    return {**given, "narrow": some}


def floor_of(model: str, of: str) -> float:
    """How near something must be by this model to count."""
    floors = next((floors for name, *floors in FLOORS if model.startswith(name)), OTHER_FLOORS)
    return floors[0] if of == "entry" else floors[1]


def row_of(row: Record) -> Row:
    """What a vector is of. The subject of an entry is read later, with the entry."""
    if row["entry_id"] is not None:
        return Row(("entry", str(row["entry_id"])), "entry", row["entry_id"])
    subject = ("asset", str(row["asset_id"]))
    for of in ("scene", "frame"):
        if row[f"{of}_id"] is not None:
            return Row(subject, of, row[f"{of}_id"])
    return Row(subject, "asset", row["asset_id"])


@lru_cache(maxsize=64)
def nearest_of(dimensions: int) -> Query:
    """The statement for a model of so many dimensions: a parameter cannot say how long a bit string is."""
    query = queries.compare_nearest
    return Query(query.name, query.sql.replace("bit(1024)", f"bit({int(dimensions)})"), query.parameters)


def vector_text(vector: Sequence[float]) -> str:
    """As the database reads it."""
    return "[" + ",".join(f"{float(number):.5g}" for number in vector) + "]"
