"""Once more: retry of what failed, retranscode of what is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.dead import retry_job
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import Moved, NewJob, Priority
from mediamill.engine.rules import Engine
from mediamill.errors import ConflictError
from mediamill.settings import Settings
from mediamill.videos.add import enqueue_ladder
from mediamill.videos.model import (
    TRANSCODE,
    TRANSCRIBE,
    UnknownVideoError,
    VideoBusyError,
    check_qualities,
    owner_of,
    source_name,
)
from mediamill.videos.store import queries


class NothingToRetryError(ConflictError):
    """Nothing of this video failed."""

    code = "nothing_to_retry"


async def retry_video(
    connection: Connection, engine: Engine, enqueuer: Enqueuer, settings: Settings, video_id: UUID
) -> list[str]:
    """What failed is tried again now, with fresh attempts: the stream, the captions, or both. Their kinds."""
    video = await lock_video(connection, video_id)
    dead = {row["kind"]: row["id"] for row in reversed(await _dead(connection, video_id))}
    busy = {row["kind"] for row in await queries.open_jobs.rows(connection, video_id=str(video_id))}
    tried = []
    for kind, failed in (
        (TRANSCODE, video["state"] == "failed" or (video["state"] == "ready" and video["error"] is not None)),
        (TRANSCRIBE, video["captions_error"] is not None),
    ):
        if not failed or kind in busy:
            continue
        if kind in dead:
            await retry_job(connection, engine, dead[kind])
        elif kind == TRANSCODE:  # its dead letter was purged: from the start
            await enqueue_ladder(connection, enqueuer, settings, video_id, video["mime_type"])
            state = "pending" if video["output"] is None else "ready"
            await queries.move.run(connection, id=video_id, state=state, error=None)
        else:
            await enqueue_captions(connection, enqueuer, video_id)
        tried.append(kind)
    if not tried:
        raise NothingToRetryError(fix="to make a stream that is there once more, ask for a retranscode")
    await queries.tell.run(connection, id=video_id)
    return tried


async def retranscode_video(
    connection: Connection,
    enqueuer: Enqueuer,
    settings: Settings,
    video_id: UUID,
    qualities: list[str] | None = None,
    *,
    transcript: bool = False,
    priority: Priority = Priority.LOW,
) -> int:
    """A job that makes the named qualities anew, or all; its id. What is there plays until the new stream is whole.

    That is why it does not hurry: any number of them leave the workers to videos that cannot be played yet.
    """
    video = await lock_video(connection, video_id)
    if video["state"] != "ready" or video["deleted_at"] is not None:
        raise VideoBusyError(
            f"the video is {'in the trash' if video['deleted_at'] else video['state']}, not ready",
            fix="restore it first" if video["deleted_at"] else "wait until it is ready, or retry it",
        )
    for row in await queries.open_jobs.rows(connection, video_id=str(video_id)):
        if row["kind"] == TRANSCODE:
            raise VideoBusyError("a retranscode of this video waits already")
    named = None if not qualities else check_qualities(qualities)
    done = [
        row["quality"]
        for row in await queries.list_qualities.rows(connection, ids=[video_id])
        if row["shown"] and row["state"] == "completed"
    ]
    job_id = await enqueue_ladder(
        connection,
        enqueuer,
        settings,
        video_id,
        video["mime_type"],
        priority=priority,
        qualities=named,
        skip=[] if named is None else [name for name in done if name not in named],
        retranscode={"qualities": named, "transcript": transcript},
    )
    await queries.tell.run(connection, id=video_id)
    return job_id


async def enqueue_captions(
    connection: Connection, enqueuer: Enqueuer, video_id: UUID, priority: Priority = Priority.NORMAL
) -> None:
    """The job that writes down what is said in a video."""
    payload = {"file": {"data": source_name(video_id)}}
    job = NewJob(TRANSCRIBE, payload, owner=owner_of(video_id), subject_id=str(video_id), priority=priority)
    await enqueuer.enqueue_job(connection, job)
    await queries.note_captions.run(connection, id=video_id, state="pending", error=None)


async def lock_video(connection: Connection, video_id: UUID) -> Record:
    """The row, for this transaction alone."""
    row = await queries.lock_video.row(connection, id=video_id)
    if row is None:
        raise UnknownVideoError(f"there is no video {video_id}")
    return row


async def _dead(connection: Connection, video_id: UUID) -> list[Record]:
    return await queries.dead_jobs.rows(connection, video_id=str(video_id))


def retranscode_of(job: Moved) -> Mapping[str, Any]:
    """What a job is to make anew; empty for the first time."""
    wish = job.payload.get("retranscode")
    return wish if isinstance(wish, dict) else {}
