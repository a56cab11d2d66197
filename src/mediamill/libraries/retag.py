"""Other models: what is completed is tagged again, or only embedded, from the proxies that are there, batch by batch.

A library remembers the last asset that was looked through (`retag_after`). Old tags stay until new ones replace them.
"""

from __future__ import annotations

import asyncio
import logging

from mediamill.db.connection import LOST, Connection, Database
from mediamill.engine.dead import purge_jobs
from mediamill.engine.rules import Engine
from mediamill.libraries.look import find_library
from mediamill.libraries.store import queries
from mediamill.processors.models.names import reader_name, vision_name
from mediamill.search.embedders import note_embedders
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


async def note_models(database: Database, settings: Settings) -> bool:
    """When a server starts: if its settings name other models than before, what those others have seen is seen again.

    Another tagger: in libraries without a target. Another model for vectors, or another reader of text in pictures:
    everywhere, but only for new vectors, and for the text.
    """
    async with database.transaction() as connection:
        tagger = await ensure_model(connection, vision_name(settings))
        other_tagger = await queries.set_default_tagger.value(connection, id=tagger) is not None
        other_vectors = await note_embedders(connection, settings)
        other_reader = await _note_reader(connection, settings)
        if other_tagger or other_vectors or other_reader:
            await queries.retag_libraries.run(connection, all=other_vectors or other_reader)
        return other_tagger or other_vectors or other_reader


async def _note_reader(connection: Connection, settings: Settings) -> bool:
    """Is there something to be read that was not, or not by this reader? Switched off, what was read stays."""
    reader = reader_name(settings)
    id_ = 0 if reader is None else await ensure_model(connection, reader)
    return await queries.set_reader.value(connection, id=id_) is not None and id_ != 0


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
    """Go through every library that has other models, a commit after each batch; how many assets wait again."""
    async with database.connection() as connection:
        libraries = [row["number"] for row in await queries.retagging.rows(connection)]
    moved = 0
    for number in libraries:
        while (some := await _retag_batch(database, number, batch)) is not None:
            moved += some
    return moved


async def let_go_of_outdated_jobs(database: Database) -> int:
    """Jobs that wait for models that nobody wants any more, or for a folder that is not the library's any more, go;
    their assets wait for others. How many."""
    async with database.transaction() as connection:
        rows = await queries.outdated_tag_jobs.rows(connection, amount=BATCH)
        rows += await queries.moved_jobs.rows(connection, amount=BATCH)
        assets = {row["job_id"]: row["id"] for row in rows}
        gone = await purge_jobs(connection, Engine(), list(assets)) if assets else []  # no failure: no hooks
        await queries.forget_jobs.rows(connection, ids=[assets[job] for job in gone], jobs=gone)
    return len(gone)


async def _retag_batch(database: Database, number: int, batch: int) -> int | None:
    """How many of the next assets wait again; None if there are no more."""
    async with database.transaction() as connection:
        row = await queries.lock_retagging.row(connection, number=number)
        if row is None:
            return None
        done = await queries.retag_batch.row(
            connection,
            number=number,
            after=row["retag_after"],
            **{name: row[name] for name in ("target", "text", "look")},
            amount=batch,
        )
        assert done is not None
        return None if done["after"] is None else int(done["moved"])
