"""The same picture under another name: what was said of one is true of the other, so nobody looks twice.

A renamed file that the scanner took for a new one keeps its tags in this way, and so does a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.db.connection import Connection
from mediamill.libraries.store import queries
from mediamill.search.vectors import copy_vectors


async def take_after_twins(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Images that wait for a tagger, and whose twin it has seen, are completed; which ones."""
    if not ids:
        return set()
    found = await queries.find_twins.rows(connection, ids=list(ids))
    if not found:
        return set()
    pairs = {row["id"]: row["twin"] for row in found}
    taken = await queries.take_over.rows(connection, ids=list(pairs), twins=list(pairs.values()))
    await copy_vectors(connection, {row["id"]: row["twin"] for row in taken})
    return {row["id"] for row in taken}
