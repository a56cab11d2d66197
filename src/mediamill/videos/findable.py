"""What a video is found by: title, description, category, and what is said in it, passage by passage."""

from __future__ import annotations

import json
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import Connection, Database
from mediamill.search.entries import (
    Entry,
    cut_passages,
    drop_entries,
    list_subjects,
    put_entries,
    titles_of,
)
from mediamill.videos.store import queries

SOURCE = "video"
BATCH = 500


async def note_findable(connection: Connection, video_id: UUID) -> None:
    """As it is now; one that is not ready, is in the trash or is gone is not found."""
    row = await queries.findable_video.row(connection, id=video_id)
    if row is None:
        await drop_entries(connection, SOURCE, str(video_id))
    else:
        await put_entries(connection, SOURCE, str(video_id), _entries(row))


async def fill_findable(database: Database, batch: int = BATCH) -> int:
    """Videos that are not found though they could be watched, and such as are found though they could not. How many."""
    return await _add_missing(database, batch) + await _drop_lost(database, batch)


async def _add_missing(database: Database, batch: int) -> int:
    """Those without entries, or with entries of another title."""
    put, after = 0, UUID(int=0)
    while True:
        async with database.transaction() as connection:
            rows = await queries.findable_after.rows(connection, after=after, batch=batch)
            known = await titles_of(connection, SOURCE, [str(row["id"]) for row in rows])
            for row in rows:
                if known.get(str(row["id"])) != row["title"]:
                    await queries.lock_video.row(connection, id=row["id"])
                    await note_findable(connection, row["id"])
                    put += 1
        if len(rows) < batch:
            return put
        after = rows[-1]["id"]


async def _drop_lost(database: Database, batch: int) -> int:
    """Entries whose video cannot be watched, or is gone."""
    dropped, after = 0, ""
    while True:
        async with database.transaction() as connection:
            subjects = await list_subjects(connection, SOURCE, after, batch)
            ids = [UUID(subject) for subject in subjects]
            there = {row["id"] for row in await queries.findable_among.rows(connection, ids=ids)}
            for lost in [id_ for id_ in ids if id_ not in there]:
                await queries.lock_video.row(connection, id=lost)
                await note_findable(connection, lost)
                dropped += 1
        if len(subjects) < batch:
            return dropped
        after = subjects[-1]


def _entries(row: Record) -> list[Entry]:
    url, title, facts = f"/videos/{row['slug']}", row["title"], {"type": "video", "slug": row["slug"]}
    made = row["created_at"]
    about = "\n".join(part for part in (row["description"], row["category"]) if part)
    whole = Entry(title, about, None, made, url, facts)
    said = json.loads(row["transcript"])["segments"] if row["transcript"] else []
    passages = cut_passages((float(one["start"]), float(one["end"]), str(one["text"])) for one in said)
    return [
        whole,
        *(
            Entry(
                title,
                one.text,
                one.starts_at,
                made,
                f"{url}?t={one.starts_at:g}",
                facts | {"times": one.times},
            )
            for one in passages
        ),
    ]
