"""What media of messages became can be found: caption and text, by the name of the conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from asyncpg import Record

from mediamill.conversations.store import queries
from mediamill.db.connection import Connection, Database
from mediamill.search.entries import (
    TITLE_CHARACTERS,
    Entry,
    drop_entries_under,
    list_subjects,
    put_entries,
    titles_of,
)

SOURCE = "message"
BATCH = 500
TYPES = ("image", "video", "audio")


async def note_findable(connection: Connection, texts: Mapping[str, str]) -> None:
    """By guid, what the media of these messages became."""
    if not texts:
        return
    for row in await queries.findable_media.rows(connection, guids=list(texts)):
        await put_entries(connection, SOURCE, _subject(row), [_entry(row, texts[row["guid"]])])


async def fill_findable(database: Database, batch: int = BATCH) -> int:
    """Media messages that are not found by what they became, or under an old name, and such of bots that are gone.

    How many. A message that is written anew meanwhile waits for the batch, and has the last word.
    """
    put = 0
    keys: dict[str, Any] = {"bot_id": "", "provider_name": "", "correspondent_id": "", "id": -1}
    while True:
        async with database.transaction() as connection:
            rows = await queries.media_after.rows(connection, **keys, batch=batch)
            wanted = [row for row in rows if row["failed_reason"] is None and row["guid"]]
            known = await titles_of(connection, SOURCE, [_subject(row) for row in wanted])
            for row in wanted:
                entry = _entry(row, row["content"])
                if known.get(_subject(row)) != entry.title[:TITLE_CHARACTERS]:
                    await put_entries(connection, SOURCE, _subject(row), [entry])
                    put += 1
        if len(rows) < batch:
            return put + await _drop_lost(database)
        keys = {name: rows[-1][name] for name in keys}


async def _drop_lost(database: Database) -> int:
    """By the bots that entries are of: a message goes with its bot, and not before."""
    dropped, after = 0, ""
    while True:
        async with database.transaction() as connection:
            subjects = await list_subjects(connection, SOURCE, after, 1)
            if not subjects:
                return dropped
            bot_id = subjects[0].partition("/")[0]
            if await queries.lock_bot.row(connection, id=bot_id) is None:
                await forget_findable(connection, bot_id)
                dropped += 1
        after = f"{bot_id}0"  # behind all that begins with the bot and a slash


async def forget_findable(connection: Connection, bot_id: str) -> None:
    """Of a bot that is gone."""
    await drop_entries_under(connection, SOURCE, bot_id)


def _subject(row: Record) -> str:
    return f"{row['bot_id']}/{row['guid']}"


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
