"""What media of messages became can be found: caption and text, by the name of the conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import quote

from asyncpg import Record

from mediamill.conversations.store import queries
from mediamill.db.connection import Connection
from mediamill.search.entries import Entry, drop_entries_under, put_entries

SOURCE = "message"
TYPES = ("image", "video", "audio")


async def note_findable(connection: Connection, texts: Mapping[str, str]) -> None:
    """By guid, what the media of these messages became."""
    if not texts:
        return
    for row in await queries.findable_media.rows(connection, guids=list(texts)):
        subject = f"{row['bot_id']}/{row['guid']}"
        await put_entries(connection, SOURCE, subject, [_entry(row, texts[row["guid"]])])


async def forget_findable(connection: Connection, bot_id: str) -> None:
    """Of a bot that is gone."""
    await drop_entries_under(connection, SOURCE, bot_id)


def _entry(row: Record, text: str) -> Entry:
    media = json.loads(row["media"])
    keys = (row["provider_name"], row["correspondent_id"])
    sort = str(media["mime_type"]).partition("/")[0]
    facts = {
        "type": sort if sort in TYPES else "document",
        "mime_type": media["mime_type"],
        "file": media["original_filename"],
        "bot_id": row["bot_id"],
        "provider_name": keys[0],
        "correspondent_id": keys[1],
        "message_id": row["id"],
    }
    url = f"/bots/{row['bot_id']}/" + "/".join(quote(key, safe="") for key in keys)
    title = (row["display_name"] or "").strip() or row["correspondent_id"]
    return Entry(title, text, None, row["arrived_at"], url, facts, words=media["original_filename"] or "")
