"""What a video is found by: title, description, category, and what is said in it, passage by passage."""

from __future__ import annotations

import json
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.search.entries import Entry, cut_passages, drop_entries, put_entries
from mediamill.videos.store import queries

SOURCE = "video"


async def note_findable(connection: Connection, video_id: UUID) -> None:
    """As it is now; one that is not ready, is in the trash or is gone is not found."""
    row = await queries.findable_video.row(connection, id=video_id)
    if row is None:
        await drop_entries(connection, SOURCE, str(video_id))
    else:
        await put_entries(connection, SOURCE, str(video_id), _entries(row))


def _entries(row: Record) -> list[Entry]:
    url, title, facts = f"/videos/{row['slug']}", row["title"], {"type": "video", "slug": row["slug"]}
    made = row["created_at"]
    about = "\n".join(part for part in (row["description"], row["category"]) if part)
    whole = Entry(title, about, None, made, url, facts)
    said = json.loads(row["transcript"])["segments"] if row["transcript"] else []
    passages = cut_passages((float(one["start"]), str(one["text"])) for one in said)
    return [whole, *(Entry(title, text, at, made, f"{url}?t={at:g}", facts) for at, text in passages)]
