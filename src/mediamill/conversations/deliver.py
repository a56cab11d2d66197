"""Delivery: results of media jobs are reaped into the records of their bots, then put into the queues in memory.

The first is one transaction, the second cannot fail; whoever dies in between finds the text in the records at the next
start. Both steps can be done again without harm.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mediamill.conversations.access import count_measured, declared_seconds
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.findable import note_findable
from mediamill.conversations.model import CHAT, USER, Message, finished_content, owner_of
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
    texts = {str(result.subject_id): (_content_of(result), None) for result in results}
    for guid in texts.keys() - await write_texts(connection, texts):
        log.warning("no placeholder for GUID %s: it was delivered before, or is forgotten", guid)
    for result in results:
        await _count_seconds(connection, result)


async def _count_seconds(connection: Connection, result: Moved) -> None:
    """How long it really plays; what was declared is counted already. The chat for trying out has no limits."""
    found: Any = result.result
    facts = found.get("facts") if isinstance(found, Mapping) else None
    measured = facts.get("duration_seconds") if isinstance(facts, Mapping) else None
    payload = result.payload
    if not isinstance(measured, int | float) or payload.get("provider_name") in (None, CHAT):
        return
    more = float(measured) - declared_seconds(payload.get("media_metadata"))
    message = Message.from_json(payload["placeholder_message"])
    if more and message.source == USER:
        await count_measured(connection, str(payload["bot_id"]), str(payload["provider_name"]), message, more)


async def write_texts(connection: Connection, texts: Mapping[str, tuple[str, str | None]]) -> set[str]:
    """By guid the content and why it failed, if it did. The guids whose messages were found.

    One without a placeholder may have been processed again after a failure: its text takes the place of the notice,
    stored or not. In this order: what is stored meanwhile is found by the last statement.
    """
    known: set[str] = set()
    for write in (queries.finish_arrivals, queries.rewrite_waiting, queries.rewrite_stored):
        left = {guid: text for guid, text in texts.items() if guid not in known}
        if not left:
            break
        contents, reasons = zip(*left.values(), strict=True)
        rows = await write.rows(connection, guids=list(left), contents=contents, failed_reasons=reasons)
        known |= {row["guid"] for row in rows}
    await note_findable(connection, {guid: texts[guid][0] for guid in known if texts[guid][1] is None})
    return known


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
                row["correspondent_id"], row["guid"], row["content"], message_id=row["id"]
            )
    return delivered
