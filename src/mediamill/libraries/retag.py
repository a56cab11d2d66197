"""Another tagger: what is completed is tagged again, from the proxies that are there, batch by batch.

A library remembers the last asset that was looked through (`retag_after`). Old tags stay until new ones replace them.
"""

from __future__ import annotations

import asyncio
import logging

from mediamill.db.connection import LOST, Connection, Database
from mediamill.libraries.look import find_library
from mediamill.libraries.store import queries
from mediamill.processors.models.names import vision_name
from mediamill.search.vectors import ensure_model
from mediamill.settings import Settings

log = logging.getLogger(__name__)

BATCH = 5_000
EVERY_SECONDS = 5.0


async def set_tagger(
    connection: Connection, settings: Settings, slug: str, engine: str | None, model: str | None = None
) -> None:
    """Who tags this library from now on, and what others tagged again. No engine: whoever is the system's default."""
    number = (await find_library(connection, slug))["number"]
    tagger = None
    if engine is not None:
        tagger = await ensure_model(connection, vision_name(settings, engine, model))
    await queries.set_target.run(connection, number=number, tagger=tagger)
    await queries.tell.run(connection, number=number)


async def note_default_tagger(database: Database, settings: Settings) -> bool:
    """When a server starts: if the settings name another tagger, libraries without a target are tagged again."""
    async with database.transaction() as connection:
        tagger = await ensure_model(connection, vision_name(settings))
        if await queries.set_default_tagger.value(connection, id=tagger) is None:
            return False
        await queries.retag_default.run(connection)
        return True


async def retag_forever(database: Database) -> None:
    """For the server; several may do it at once."""
    while True:
        try:
            await retag_some(database)
        except LOST as error:
            log.debug("tagging again: the database is away: %s", error)
        except Exception:
            log.exception("tagging again failed")
        await asyncio.sleep(EVERY_SECONDS)


async def retag_some(database: Database, batch: int = BATCH) -> int:
    """Go through every library that has another tagger, a commit after each batch; how many assets wait again."""
    async with database.connection() as connection:
        libraries = [row["number"] for row in await queries.retagging.rows(connection)]
    moved = 0
    for number in libraries:
        while (some := await _retag_batch(database, number, batch)) is not None:
            moved += some
    return moved


async def _retag_batch(database: Database, number: int, batch: int) -> int | None:
    """How many of the next assets wait again; None if there are no more."""
    async with database.transaction() as connection:
        row = await queries.lock_retagging.row(connection, number=number)
        if row is None:
            return None
        done = await queries.retag_batch.row(
            connection, number=number, after=row["retag_after"], target=row["target"], amount=batch
        )
        assert done is not None
        return None if done["after"] is None else int(done["moved"])
