"""From the payload of a bridge to the one door of conversations: whose conversation it is, and who wrote."""

from __future__ import annotations

from typing import Any

from mediamill.conversations.access import DECLARED
from mediamill.conversations.model import CORRUPT, OUTGOING, USER, Group, Sender
from mediamill.conversations.records import find_correspondent, look_up_correspondent
from mediamill.db.connection import Database
from mediamill.providers.whatsapp.payload import MessagePayload

NAME = "whatsapp"


async def find_conversation(database: Database, bot_id: str, payload: MessagePayload) -> str:
    """The group, or the other person by any of his identifiers, all of which are known from now on."""
    if payload.group is not None:
        return payload.group.identifier
    return await find_correspondent(database, bot_id, NAME, _identifiers_of(payload))


async def look_up_conversation(database: Database, bot_id: str, payload: MessagePayload) -> str:
    """The same; nothing is remembered."""
    if payload.group is not None:
        return payload.group.identifier
    return await look_up_correspondent(database, bot_id, NAME, _identifiers_of(payload))


def _identifiers_of(payload: MessagePayload) -> list[str]:
    """The other identifiers of an outgoing message are the account's own: they say nothing of the recipient."""
    if payload.direction == "outgoing":
        return [str(payload.recipient_id)]
    return list(dict.fromkeys([payload.sender, *payload.alternate_identifiers]))


def message_of(payload: MessagePayload) -> dict[str, Any]:
    """What `add_message` is told."""
    group = payload.group and Group(payload.group.identifier, payload.group.display_name)
    return {
        "content": payload.message,
        "sender": _sender_of(payload),
        "source": USER if payload.direction == "incoming" else OUTGOING,
        "originating_time": payload.originating_time,
        "group": group,
        "provider_message_id": payload.provider_message_id,
        "media_processing_id": payload.media_processing_id,
        "mime_type": payload.mime_type,
        "original_filename": payload.original_filename,
        "media_metadata": _metadata_of(payload),
        "addressed": payload.addressed,
    }


def _metadata_of(payload: MessagePayload) -> dict[str, Any]:
    """What was not fetched plays no time."""
    if payload.quota_exceeded:
        return {"_quota_exceeded": True}
    is_there = payload.media_seconds and not (payload.mime_type or "").startswith(CORRUPT)
    return {DECLARED: payload.media_seconds} if is_there else {}


def _sender_of(payload: MessagePayload) -> Sender:
    who = payload.actual_sender
    if payload.group is not None and who is not None:
        return Sender(who.identifier, who.display_name, tuple(who.alternate_identifiers))
    return Sender(payload.sender, payload.display_name, tuple(payload.alternate_identifiers))
