"""Delivery: results of media jobs are reaped into the records of their bots, then put into the queues in memory.

The first is one transaction, the second cannot fail; whoever dies in between finds the text in the records at the next
start. Both steps can be done again without harm.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.model import finished_content, owner_of
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection, Database
from mediamill.engine.deliver import reap_results
from mediamill.engine.model import Moved

log = logging.getLogger(__name__)

BATCH = 100

Queues = Mapping[tuple[str, str], BotQueuesManager]  # by bot and provider


async def deliver_media(database: Database, queues: Queues) -> int:
    """All that has come for these bots. How many messages were finished."""
    bot_ids = sorted({bot_id for bot_id, _ in queues})
    delivered = 0
    while bot_ids:
        async with database.transaction() as connection:
            results = await reap_results(connection, [owner_of(bot_id) for bot_id in bot_ids], BATCH)
            await _keep_texts(connection, results)
        delivered += await _put_into_memory(database, queues, bot_ids)
        if len(results) < BATCH:
            break
    return delivered


async def _keep_texts(connection: Connection, results: Sequence[Moved]) -> None:
    if not results:
        return
    texts: dict[str, Any] = {
        "guids": [str(result.subject_id) for result in results],
        "contents": [_content_of(result) for result in results],
        "failed_reasons": [None] * len(results),
    }
    rows = await queries.finish_arrivals.rows(connection, **texts)
    known = {row["guid"] for row in rows}
    if len(known) < len(results):  # processed again after a failure, perhaps
        known |= {row["guid"] for row in await queries.rewrite_stored.rows(connection, **texts)}
    for guid in set(texts["guids"]) - known:
        log.warning("no placeholder for GUID %s: it was delivered before, or is forgotten", guid)


def _content_of(result: Moved) -> str:
    found: Any = result.result
    text = str(found.get("content") or "") if isinstance(found, Mapping) else ""
    return finished_content(str(result.payload.get("caption") or ""), text)


async def _put_into_memory(database: Database, queues: Queues, bot_ids: Sequence[str]) -> int:
    async with database.connection() as connection:
        rows = await queries.ready_media.rows(connection, bot_ids=bot_ids, batch=10 * BATCH)
    delivered = 0
    for row in rows:
        queue = queues.get((row["bot_id"], row["provider_name"]))
        if queue is not None:
            delivered += await queue.update_message_by_media_id(
                row["correspondent_id"], row["guid"], row["content"]
            )
    return delivered
