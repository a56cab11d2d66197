"""Looking at videos: the list, and one with all there is to know of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.priority import priority_name
from mediamill.videos.model import QUALITIES, UnknownVideoError, is_id
from mediamill.videos.store import queries


async def find_video(connection: Connection, who: str | UUID) -> UUID:
    """By id or slug."""
    text = str(who)
    found = await queries.find_id.value(connection, id=UUID(text) if is_id(text) else None, slug=text)
    if found is None:
        raise UnknownVideoError(f"there is no video {text[:100]!r}", fix="mediamill videos list shows them")
    return UUID(str(found))


async def list_videos(
    connection: Connection,
    *,
    state: str | None = None,
    category: str | None = None,
    words: str | None = None,
    trash: bool = False,
    before: UUID | None = None,
    amount: int = 50,
) -> list[dict[str, Any]]:
    """Newest first, each with its qualities."""
    rows = await queries.list_videos.rows(
        connection, state=state, category=category, words=words, trash=trash, before=before, amount=amount
    )
    qualities = await _qualities(connection, [row["id"] for row in rows])
    return [{**_plain(row), **_split(qualities.get(row["id"], []))} for row in rows]


async def show_video(connection: Connection, who: str | UUID) -> dict[str, Any]:
    """One video, by id or slug."""
    video_id = await find_video(connection, who)
    row = await queries.show_video.row(connection, id=video_id)
    if row is None:
        raise UnknownVideoError(f"there is no video {who}")
    qualities = await _qualities(connection, [video_id])
    return {**_plain(row), **_split(qualities.get(video_id, []))}


async def show_transcript(connection: Connection, video_id: UUID) -> dict[str, Any]:
    """What is said in a video: `captions` as WebVTT, `transcript` with its segments; both None while there are none."""
    row = await queries.transcript_of.row(connection, id=video_id)
    if row is None:
        raise UnknownVideoError(f"there is no video {video_id}")
    return {**dict(row), "transcript": None if row["transcript"] is None else json.loads(row["transcript"])}


async def titles_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """Of many; those in the trash are not in it."""
    return {row["id"]: row["title"] for row in await queries.titles.rows(connection, ids=list(ids))}


async def list_categories(connection: Connection) -> list[dict[str, Any]]:
    """With the number of videos in each."""
    return [dict(row) for row in await queries.list_categories.rows(connection)]


async def _qualities(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    found: dict[UUID, list[dict[str, Any]]] = {}
    for row in await queries.list_qualities.rows(connection, ids=list(ids)):
        found.setdefault(row["video_id"], []).append(
            {name: value for name, value in row.items() if name not in ("video_id", "job_id")}
        )
    for rows in found.values():
        rows.sort(key=lambda row: QUALITIES.index(row["quality"]) if row["quality"] in QUALITIES else 99)
    return found


def _split(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """`qualities` of the stream that plays, or of the first one; `next_qualities` of the one that takes its place."""
    told = {"qualities": True, "next_qualities": False}
    return {
        name: [
            {key: value for key, value in row.items() if key != "shown"}
            for row in rows
            if row["shown"] is shown
        ]
        for name, shown in told.items()
    }


def _plain(row: Record) -> dict[str, Any]:
    """The row, its JSON read, without the long texts."""
    told = {name: value for name, value in row.items() if name not in ("captions", "transcript")}
    for name in ("warnings", "retranscode"):
        if isinstance(told.get(name), str):
            told[name] = json.loads(told[name])
    return {**told, "id": str(row["id"]), "priority": priority_name(row["priority"])}
