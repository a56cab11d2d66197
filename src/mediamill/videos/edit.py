"""Title, description, category and slug of a video; and how soon its jobs are claimed."""

from __future__ import annotations

from uuid import UUID

from asyncpg import UniqueViolationError

from mediamill.db.connection import Connection
from mediamill.engine.model import Priority
from mediamill.engine.priority import set_priority
from mediamill.errors import ConflictError
from mediamill.videos.findable import note_findable
from mediamill.videos.model import (
    CATEGORY_CHARACTERS,
    DESCRIPTION_CHARACTERS,
    TITLE_CHARACTERS,
    UnknownVideoError,
    check_slug,
    clean_fact,
)
from mediamill.videos.store import queries


class SlugTakenError(ConflictError):
    """Another video has this slug."""

    code = "slug_taken"


async def edit_video(
    connection: Connection,
    video_id: UUID,
    *,
    title: str | None = None,
    description: str | None = None,
    category: str | None = None,
    slug: str | None = None,
) -> None:
    """What is None stays as it is."""
    facts = {
        "title": None if title is None else clean_fact("title", title, TITLE_CHARACTERS, needed=True),
        "description": None
        if description is None
        else clean_fact("description", description, DESCRIPTION_CHARACTERS),
        "category": None if category is None else clean_fact("category", category, CATEGORY_CHARACTERS),
        "slug": None if slug is None else check_slug(slug),
    }
    try:
        found = await queries.edit_video.value(connection, id=video_id, **facts)
    except UniqueViolationError:
        raise SlugTakenError(f"another video has the slug {slug}") from None
    if found is None:
        raise UnknownVideoError(f"there is no video {video_id}")
    await note_findable(connection, video_id)
    await queries.tell.run(connection, id=video_id)


async def set_video_priority(connection: Connection, video_id: UUID, priority: Priority) -> None:
    """How soon its jobs that wait are claimed."""
    jobs = await queries.open_jobs.rows(connection, video_id=str(video_id))
    await set_priority(connection, [row["id"] for row in jobs], priority)
    await queries.tell.run(connection, id=video_id)
