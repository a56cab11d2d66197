"""Looking at conversations: who talks, and what was said, with the state of every media message. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from mediamill.conversations.bots import show_bot
from mediamill.conversations.model import CORRUPT
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection
from mediamill.errors import NotFoundError

MOST_SKEW_SECONDS = 86_400  # a sender's clock may be ahead of ours


class UnknownConversationError(NotFoundError):
    """There is no such conversation."""

    code = "unknown_conversation"


async def list_conversations(
    connection: Connection, bot_id: str, *, before: datetime | None = None, amount: int = 50
) -> list[dict[str, Any]]:
    """Of one bot, the latest first; `before`: the last_at to go on from."""
    await show_bot(connection, bot_id)
    rows = await queries.list_conversations.rows(connection, bot_id=bot_id, before=before, amount=amount)
    return [dict(row) for row in rows]


async def find_conversation(
    connection: Connection, bot_id: str, provider_name: str, correspondent_id: str
) -> dict[str, Any]:
    """One conversation."""
    row = await queries.find_conversation.row(
        connection, bot_id=bot_id, provider_name=provider_name, correspondent_id=correspondent_id
    )
    if row is None:
        await show_bot(connection, bot_id)
        raise UnknownConversationError(f"{bot_id} has no conversation with {correspondent_id} there")
    return dict(row)


async def list_messages(
    connection: Connection,
    bot_id: str,
    provider_name: str,
    correspondent_id: str,
    *,
    before: int | None = None,
    after: int | None = None,
    amount: int = 50,
) -> list[dict[str, Any]]:
    """The newest messages between two ids, stored or not, in true order (see `in_true_order`).

    A media message has `media`: guid, mime_type, original_filename, `state` (waiting, processing, done or failed),
    `percent`, `failed_reason`, `can_retry`, and `job_id` as long as the engine knows its job.
    """
    rows = await queries.list_messages.rows(
        connection,
        bot_id=bot_id,
        provider_name=provider_name,
        correspondent_id=correspondent_id,
        before=before,
        after=after,
        amount=amount,
    )
    messages = in_true_order([_plain(dict(row)) for row in rows])
    await _tell_jobs(connection, [message["media"] for message in messages if message["media"]])
    return messages


def in_true_order(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the time of sending, then by id: media get their id only when they are downloaded.

    A message without a time, or with one that cannot be, stays behind all that came before it.
    """
    latest, placed = 0.0, []
    for message in sorted(messages, key=lambda each: int(each["id"])):
        at = message["originating_time"] or latest
        if at > message["accepted_time"].timestamp() + MOST_SKEW_SECONDS:
            at = latest
        latest = max(latest, at)
        placed.append((at, message["id"], message))
    return [message for _, _, message in sorted(placed, key=lambda each: each[:2])]


async def failed_replies(
    connection: Connection, bot_id: str, provider_name: str, correspondent_id: str, amount: int = 50
) -> list[dict[str, Any]]:
    """Messages of a conversation whose answer failed, newest first: message_id, error, ended_at."""
    rows = await queries.list_failed_replies.rows(
        connection,
        bot_id=bot_id,
        provider_name=provider_name,
        correspondent_id=correspondent_id,
        amount=amount,
    )
    return [dict(row) for row in rows]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("sender", "group", "media"):
        row[name] = json.loads(row[name]) if row[name] else None
    if row["media"] is not None:
        awaited = row["media_processing_id"] is not None
        state = "waiting" if awaited else "failed" if row["media"]["failed_reason"] else "done"
        row["media"] |= {"state": state, "percent": None, "job_id": None, "can_retry": False}
    return row


async def _tell_jobs(connection: Connection, media: Sequence[dict[str, Any]]) -> None:
    """What the engine says of media that are not done: one that failed may be at work again."""
    by_guid = {each["guid"]: each for each in media if each["state"] != "done"}
    if not by_guid:
        return
    for row in await queries.media_jobs.rows(connection, guids=list(by_guid)):
        each = by_guid[row["guid"]]
        each["job_id"] = row["job_id"]
        if row["state"] == "dead":  # what never arrived, or is gone, cannot be tried again from here
            each["can_retry"] = not (row["file_gone"] or each["mime_type"].startswith(CORRUPT))
        else:
            each["state"] = "processing" if row["state"] in ("running", "completed") else "waiting"
            each["percent"] = row["percent"]
