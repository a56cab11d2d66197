"""A video comes in: its row and its job, in one transaction."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mediamill.db.connection import Connection
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import NewJob, Priority
from mediamill.errors import ConflictError
from mediamill.settings import Settings
from mediamill.videos.model import (
    CATEGORY_CHARACTERS,
    DESCRIPTION_CHARACTERS,
    TITLE_CHARACTERS,
    TRANSCODE,
    NewVideo,
    clean_fact,
    make_slug,
    owner_of,
    source_name,
    title_of_file,
)
from mediamill.videos.store import queries

# What people call them, and what FFmpeg does.
ENCODERS = {
    "auto": "auto",
    "software": "libx264",
    "nvenc": "h264_nvenc",
    "qsv": "h264_qsv",
    "vaapi": "h264_vaapi",
}


class VideoExistsError(ConflictError):
    """There is a video with this id already."""

    code = "video_exists"


async def add_video(connection: Connection, enqueuer: Enqueuer, settings: Settings, new: NewVideo) -> UUID:
    """The row, `pending`, and the job that makes its stream. The source is in its place already."""
    title = clean_fact("title", new.title or title_of_file(new.source_name), TITLE_CHARACTERS, needed=True)
    slug = make_slug(title)
    for name in (slug, f"{slug}-{new.id.hex[:8]}", f"{slug}-{new.id.hex}"):
        added = await queries.add_video.value(
            connection,
            id=new.id,
            slug=name,
            title=title,
            description=clean_fact("description", new.description, DESCRIPTION_CHARACTERS),
            category=clean_fact("category", new.category, CATEGORY_CHARACTERS),
            source_name=new.source_name,
            source_bytes=new.source_bytes,
            mime_type=new.mime_type,
        )
        if added is not None:
            await enqueue_ladder(connection, enqueuer, settings, new.id, new.mime_type, priority=new.priority)
            await queries.tell.run(connection, id=new.id)
            return new.id
    raise VideoExistsError(f"there is a video {new.id} already")


async def enqueue_ladder(
    connection: Connection,
    enqueuer: Enqueuer,
    settings: Settings,
    video_id: UUID,
    mime_type: str,
    *,
    priority: Priority = Priority.NORMAL,
    **more: Any,
) -> int:
    """The job that makes the stream; its id. What a worker needs travels in the payload."""
    payload = {
        "file": {"data": source_name(video_id)},
        "qualities": None,
        "segment_seconds": settings.video_segment_seconds,
        "preset": settings.video_preset,
        "encoder": ENCODERS[settings.video_encoder],
        "critical": settings.video_critical,
        "resume": settings.video_resume,
        **more,
    }
    job = NewJob(
        TRANSCODE,
        payload,
        owner=owner_of(video_id),
        subject_id=str(video_id),
        mime_type=mime_type,
        priority=priority,
    )
    return await enqueuer.enqueue_job(connection, job)
