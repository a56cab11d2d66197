"""Conversations of a bot: who talks, what was said, and another try for what failed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from mediamill.api.deps import Id, Wired
from mediamill.api.jobs import Amount, Before
from mediamill.conversations import watch
from mediamill.conversations.retry import retry_message

router = APIRouter(prefix="/api/bots/{bot_id}/conversations", tags=["conversations"])

After = Annotated[int | None, Query(ge=0, le=2**63 - 1)]


@router.get("")
async def list_conversations(
    deps: Wired, bot_id: str, before: AwareDatetime | None = None, amount: Amount = 50
) -> dict[str, Any]:
    """The latest first; `next` is the `before` of the next page."""
    async with deps.database.connection() as connection:
        found = await watch.list_conversations(connection, bot_id, before=before, amount=amount)
    return {"conversations": found, "next": found[-1]["last_at"] if len(found) == amount else None}


# Identifiers of other networks may have any character, a slash too.
@router.get("/{provider}/{correspondent:path}/messages")
async def list_messages(
    deps: Wired,
    bot_id: str,
    provider: str,
    correspondent: str,
    before: Before = None,
    after: After = None,
    amount: Amount = 50,
) -> dict[str, Any]:
    """The newest between two ids, by the time of sending; `next` is the `before` of the page of older ones."""
    keys = (bot_id, provider, correspondent)
    async with deps.database.connection() as connection:
        conversation = await watch.find_conversation(connection, *keys)
        found = await watch.list_messages(connection, *keys, before=before, after=after, amount=amount)
        failed = await watch.failed_replies(connection, *keys)
    return {
        "conversation": conversation,
        "messages": found,
        "failed_replies": failed,
        "next": min(message["id"] for message in found) if len(found) == amount else None,
    }


@router.post("/{provider}/{correspondent:path}/messages/{message_id}/retry")
async def retry(
    deps: Wired, bot_id: str, provider: str, correspondent: str, message_id: Id
) -> dict[str, Any]:
    """Media that could not be processed, or an answer that failed: once more. `retried` says which."""
    keys = (bot_id, provider, correspondent)
    async with deps.database.transaction() as connection:
        await watch.find_conversation(connection, *keys)
        return {"id": message_id, "retried": await retry_message(connection, deps.engine, *keys, message_id)}
