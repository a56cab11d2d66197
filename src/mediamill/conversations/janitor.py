"""The janitor of conversations: placeholders that nobody will finish are given up, and old message ids forgotten."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.model import failed_content
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection, Database
from mediamill.engine.model import ABANDONED
from mediamill.engine.recovery.janitor import abandon_subjects
from mediamill.engine.rules import Engine

log = logging.getLogger(__name__)

BATCH = 500
FORGET_BATCH = 5_000
KEEP_DAYS = 31


async def give_up_placeholders(
    database: Database, engine: Engine, queues: Iterable[BotQueuesManager], keep_hours: float
) -> int:
    """Placeholders in memory older than this, with their jobs, to the dead letter. What runs is left to its lease.

    The conversations get their notice by the same way as any failure: the records first, then the delivery.
    """
    before = datetime.now(UTC) - timedelta(hours=keep_hours)
    old = [
        str(message.media_processing_id)
        for queue in queues
        for _, message in queue.placeholders()
        if message.accepted_time < before
    ]
    count = 0
    for first in range(0, len(old), BATCH):
        async with database.transaction() as connection:
            count += await _give_up(connection, engine, old[first : first + BATCH])
    if count:
        log.warning("%d messages waited too long for their media and were given up", count)
    return count


async def _give_up(connection: Connection, engine: Engine, guids: list[str]) -> int:
    """Of those whose text or notice is in the records, memory hears soon; a job of theirs is another try, asked for."""
    open_ = await queries.open_placeholders.rows(connection, guids=guids)
    guids = [row["guid"] for row in open_]
    count = await abandon_subjects(connection, engine, guids)
    rows = await queries.jobless_placeholders.rows(connection, guids=guids)
    done = await queries.finish_arrivals.rows(
        connection,
        guids=[row["guid"] for row in rows],
        contents=[failed_content(row["caption"], None) for row in rows],
        failed_reasons=[ABANDONED] * len(rows),
    )
    return count + len(done)


async def drop_stored_placeholders(database: Database, queues: Iterable[BotQueuesManager]) -> int:
    """Placeholders in memory whose text another process stored, before it learned that it had lost the bot."""
    count = 0
    for queue in queues:
        awaited = {str(message.media_processing_id): person for person, message in queue.placeholders()}
        if awaited:
            async with database.connection() as connection:
                rows = await queries.stored_media.rows(connection, guids=list(awaited))
            for row in rows:
                queue.drop_placeholder(awaited[row["guid"]], row["guid"])
            count += len(rows)
    return count


async def forget_arrivals(database: Database, keep_days: int) -> int:
    """Message ids that no provider sends again. How many."""
    total = 0
    while True:
        async with database.connection() as connection:
            count = await queries.forget_arrivals.run(connection, keep_days=keep_days, batch=FORGET_BATCH)
        total += count
        if count < FORGET_BATCH:
            return total


async def forget_senders(database: Database) -> None:
    """Codes that have expired, notices that were sent, and what was used on days long ago."""
    async with database.connection() as connection:
        await queries.forget_old_codes.run(connection)
        await queries.forget_notices.run(connection)
        await queries.forget_days.run(connection, keep_days=KEEP_DAYS)
