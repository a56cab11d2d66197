"""The indexes of vectors: one for each model, made beside everything else, once."""

from __future__ import annotations

from mediamill.db.connection import Connection, Database, connect
from mediamill.db.queries import Query
from mediamill.search.store import queries

LOCK = 0x6D6D07  # of whoever makes indexes


async def ensure_indexes(database: Database) -> int:
    """For every model that makes vectors; how many were made. While somebody else does it: none."""
    async with database.connection() as connection:
        missing = await queries.models_without_index.rows(connection)
    made = 0
    for model in missing:
        made += await ensure_index(database, model["id"], model["dimensions"])
    return made


async def ensure_index(database: Database, model_id: int, dimensions: int) -> bool:
    """Make it if it is not there. One that was cut off while it was made is no use, and is made anew.

    On a connection of its own: the lock belongs to the session, and goes with it if this process dies.
    """
    connection = await connect(database.url, name="mediamill indexes")
    try:
        if not await queries.lock_indexes.value(connection, number=LOCK):
            return False
        missing = await _is_missing(connection, model_id)
        if missing:
            await index_of(queries.drop_index, model_id, dimensions).run(connection)
            await index_of(queries.make_index, model_id, dimensions).run(connection)
        await queries.unlock_indexes.value(connection, number=LOCK)
        return missing
    finally:
        await connection.close()


async def drop_unused_indexes(database: Database) -> int:
    """Those of models that nobody uses, and that have no vectors any more; how many."""
    async with database.connection() as connection:
        unused = await queries.unused_indexes.rows(connection)
    if not unused:
        return 0
    connection = await connect(database.url, name="mediamill indexes")
    try:
        if not await queries.lock_indexes.value(connection, number=LOCK):
            return 0
        for model in unused:
            await index_of(queries.drop_index, model["id"], model["dimensions"] or 1).run(connection)
        await queries.unlock_indexes.value(connection, number=LOCK)
        return len(unused)
    finally:
        await connection.close()


async def _is_missing(connection: Connection, model_id: int) -> bool:
    return model_id in {row["id"] for row in await queries.models_without_index.rows(connection)}


def index_of(query: Query, model_id: int, dimensions: int) -> Query:
    """The statement for the index of one model."""
    sql = query.sql.replace("search_vectors_model_0", f"search_vectors_model_{int(model_id)}")
    sql = sql.replace("bit(1024)", f"bit({int(dimensions)})").replace(
        "model_id = 0", f"model_id = {int(model_id)}"
    )
    return Query(query.name, sql, query.parameters)
