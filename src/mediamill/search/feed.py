"""From entries without a vector to jobs that make them, some at a time; and indexes for models that are new."""

from __future__ import annotations

import asyncio
import logging

from mediamill.db.connection import LOST, Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import NewJob, Priority
from mediamill.processors.models.names import ModelName, text_name
from mediamill.search.indexes import ensure_indexes
from mediamill.search.jobs import EMBED
from mediamill.search.store import queries
from mediamill.search.vectors import ensure_model
from mediamill.settings import Settings

log = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
CHORES_EVERY = 30  # rounds
TEXTS_OF_ONE_JOB = 64
MOST_JOBS = 20
TEXT_CHARACTERS = 2_000
BATCH = 1000
OWNER = "search"


async def feed_forever(database: Database, enqueuer: Enqueuer, settings: Settings) -> None:
    """For the server; several servers may do it at once."""
    rounds = 0
    while True:
        try:
            if rounds == 0:
                await embed_again(database, settings)
            if rounds % CHORES_EVERY == 0:
                await do_chores(database)
            rounds += 1
            await feed_embeddings(database, enqueuer, settings)
        except LOST as error:
            log.debug("feeding search: the database is away: %s", error)
        except Exception:
            log.exception("feeding search failed")
        await asyncio.sleep(EVERY_SECONDS)


async def feed_embeddings(database: Database, enqueuer: Enqueuer, settings: Settings) -> int:
    """Fill up to what should be at hand; how many jobs."""
    model = text_name(settings)
    made = 0
    async with database.transaction() as connection:
        room = MOST_JOBS - int(await queries.open_embed_jobs.value(connection))
        while made < room and await _feed_one(connection, enqueuer, model):
            made += 1
    return made


async def embed_again(database: Database, settings: Settings) -> None:
    """Entries whose vectors another model made wait for the one of the settings."""
    async with database.transaction() as connection:
        model_id = await ensure_model(connection, text_name(settings))
    batch = BATCH
    while batch == BATCH:
        async with database.transaction() as connection:
            batch = len(await queries.embed_again.rows(connection, model_id=model_id, amount=BATCH))


async def do_chores(database: Database) -> None:
    """Entries whose job was lost wait again; a model that is new gets its index."""
    async with database.transaction() as connection:
        await queries.forget_embed_jobs.rows(connection)
    await ensure_indexes(database)


async def _feed_one(connection: Connection, enqueuer: Enqueuer, model: ModelName) -> bool:
    rows = await queries.take_unembedded.rows(connection, amount=TEXTS_OF_ONE_JOB)
    if not rows:
        return False
    await ensure_model(connection, model)
    ids = [row["id"] for row in rows]
    texts = [f"{row['title']}\n{row['body']}".strip()[:TEXT_CHARACTERS] for row in rows]
    payload = {"texts": texts, "entries": ids, "model": model.name}
    job = await enqueuer.enqueue_job(connection, NewJob(EMBED, payload, owner=OWNER, priority=Priority.LOW))
    await queries.note_embed_job.run(connection, job=job, ids=ids)
    return True
