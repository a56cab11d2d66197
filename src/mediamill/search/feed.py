"""From entries without a vector to jobs that make them, some at a time; and indexes for models that are new."""

from __future__ import annotations

import asyncio
import logging

from mediamill.db.connection import LOST, Connection, Database
from mediamill.engine.dead import purge_jobs
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import NewJob, Priority
from mediamill.engine.rules import Engine
from mediamill.processors.models.names import ModelName
from mediamill.search.embedders import read_embedders
from mediamill.search.indexes import drop_unused_indexes, ensure_indexes
from mediamill.search.jobs import EMBED, search_kinds
from mediamill.search.store import queries
from mediamill.settings import Settings

log = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
CHORES_EVERY = 30  # rounds
TEXTS_OF_ONE_JOB = 64
MOST_JOBS = 20
TEXT_CHARACTERS = 2_000
BATCH = 1000
UNUSED_BATCH = 5_000
OWNER = "search"
KINDS = Engine(Kinds(search_kinds()))


async def feed_forever(database: Database, enqueuer: Enqueuer, settings: Settings) -> None:
    """For the server; several servers may do it at once."""
    rounds = 0
    while True:
        try:
            if rounds % CHORES_EVERY == 0:
                await do_chores(database, settings)
            rounds += 1
            await feed_embeddings(database, enqueuer, settings)
        except LOST as error:
            log.debug("feeding search: the database is away: %s", error)
        except Exception:
            log.exception("feeding search failed")
        await asyncio.sleep(EVERY_SECONDS)


async def feed_embeddings(database: Database, enqueuer: Enqueuer, settings: Settings) -> int:
    """Fill up to what should be at hand; how many jobs."""
    made = 0
    async with database.transaction() as connection:
        _, model = (await read_embedders(connection, settings)).text
        room = MOST_JOBS - int(await queries.open_embed_jobs.value(connection))
        while made < room and await _feed_one(connection, enqueuer, model):
            made += 1
    return made


async def do_chores(database: Database, settings: Settings) -> None:
    """Entries whose job was lost, or whose model is another by now, wait again; vectors and indexes follow."""
    await embed_again(database, settings)
    async with database.transaction() as connection:
        await queries.forget_embed_jobs.rows(connection)
    await drop_unused_vectors(database)
    await drop_unused_indexes(database)
    await ensure_indexes(database)


async def embed_again(database: Database, settings: Settings) -> None:
    """Entries whose vectors another model made, or would make, wait for the one that is used now, batch by batch."""
    async with database.transaction() as connection:
        model_id, model = (await read_embedders(connection, settings)).text
        rows = await queries.outdated_embed_jobs.rows(connection, model=model.name)
        gone = await purge_jobs(connection, KINDS, [row["id"] for row in rows]) if rows else []
        await queries.wait_again.run(connection, jobs=gone, model=model.name)
    batch = BATCH
    while batch == BATCH:
        async with database.transaction() as connection:
            batch = len(await queries.embed_again.rows(connection, model_id=model_id, amount=BATCH))


async def drop_unused_vectors(database: Database, batch: int = UNUSED_BATCH) -> int:
    """Vectors of models that nobody uses, once others have taken their place; a commit after each batch. How many."""
    dropped, last = 0, batch
    while last == batch:
        async with database.transaction() as connection:
            last = len(await queries.drop_unused_vectors.rows(connection, batch=batch))
        dropped += last
    return dropped


async def _feed_one(connection: Connection, enqueuer: Enqueuer, model: ModelName) -> bool:
    rows = await queries.take_unembedded.rows(connection, amount=TEXTS_OF_ONE_JOB)
    if not rows:
        return False
    ids = [row["id"] for row in rows]
    texts = [f"{row['title']}\n{row['body']}".strip()[:TEXT_CHARACTERS] for row in rows]
    payload = {"texts": texts, "entries": ids, "model": model.name}
    new = NewJob(EMBED, payload, owner=OWNER, subject_id=OWNER, priority=Priority.LOW)
    job = await enqueuer.enqueue_job(connection, new)
    await queries.note_embed_job.run(connection, job=job, ids=ids)
    return True
