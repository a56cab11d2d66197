"""The job kinds of videos, and how a video moves with its job: always in the job's own transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.model import ClaimedJob, Moved, Priority
from mediamill.errors import GiveUpError
from mediamill.media.hls import MASTER
from mediamill.processors.audio.captions import write_captions
from mediamill.processors.models.contract import Segment
from mediamill.settings import Settings
from mediamill.staging.kept import Kept, adopt_files, forget_kept, kept_folder
from mediamill.storage.choose import Place, storage_at, storage_of
from mediamill.storage.read import read_text
from mediamill.videos.again import enqueue_captions, retranscode_of
from mediamill.videos.findable import note_findable
from mediamill.videos.model import QUALITIES, TRANSCODE, TRANSCRIBE, output_folder, quality_of
from mediamill.videos.publish import publish
from mediamill.videos.store import queries

STATES = ("pending", "in_progress", "completed", "failed", "skipped")
ERROR_CHARACTERS = 500
SEGMENTS_BYTES = 64 << 20


class VideoGoneError(GiveUpError):
    """The video was erased."""

    code = "video_gone"


def video_kinds(settings: Settings) -> tuple[JobKind, ...]:
    """The kinds, for a process with these settings."""
    storage = storage_of(settings)
    return (
        JobKind(
            TRANSCODE,
            on_claimed=partial(begin, storage),
            on_completed=partial(complete, settings),
            on_failed=partial(give_up, settings),
            on_released=release,
            on_progress=note_progress,
            keeps_files=True,
            local=True,
            description="Makes the adaptive stream of a video: every quality that its size allows, with sound, "
            "poster and previews for seeking. Finished segments are kept, so that another worker can go on from them.",
        ),
        JobKind(
            TRANSCRIBE,
            on_completed=partial(keep_transcript, storage),
            on_failed=note_no_transcript,
            local=True,
            description="Writes down what is said in a video: its transcript, and captions for the player.",
        ),
    )


async def begin(place: Place, connection: Connection, jobs: Sequence[Moved]) -> None:
    """Claimed: the video is processing. A stream that plays goes on playing beside the new one."""
    for job in jobs:
        video = await _lock(connection, job)
        if video is None:
            raise VideoGoneError
        shown = output_folder(video["id"], job.job_id)
        await storage_at(place).bring_back(kept_folder(job.job_id), shown)
        needed = [job.job_id] if video["output"] is None else [job.job_id, video["output"]]
        await queries.drop_qualities.run(connection, video_id=video["id"], job_ids=needed)
        named = retranscode_of(job).get("qualities")
        if named is not None and video["output"] is not None:
            await _adopt(connection, place, video, job, named)
        await _move(connection, video["id"], "processing", None)


async def _adopt(
    connection: Connection, place: Place, video: Record, job: Moved, anew: Sequence[str]
) -> None:
    """What is not made anew becomes part of the new stream: linked, so that it takes no space twice."""
    rows = await queries.list_files.rows(connection, video_id=video["id"], output=video["output"])
    stay = [
        Kept(row["name"], row["bytes"], row["sha256"].hex(), json.loads(row["facts"]))
        for row in rows
        if row["name"] != MASTER and quality_of(row["name"]) not in anew
    ]
    source = output_folder(video["id"], video["output"])
    await adopt_files(connection, place, job.job_id, source, stay)
    await queries.adopt_qualities.run(
        connection, video_id=video["id"], job_id=job.job_id, output=video["output"], qualities=list(anew)
    )


async def complete(settings: Settings, connection: Connection, jobs: Sequence[Moved]) -> None:
    """Done: what was made is shown, and its sound is to be written down."""
    for job in jobs:
        video = await _lock(connection, job)
        if video is None:  # erased meanwhile: what was made is swept
            await forget_kept(connection, [job.job_id])
            continue
        made = await publish(connection, storage_of(settings), video, job)
        anew = retranscode_of(job).get("transcript") or video["captions_state"] == "none"
        if made.has_audio and settings.video_captions and anew:
            priority = Priority(await queries.priority_of.value(connection, id=job.job_id))
            enqueuer = Enqueuer(Kinds([JobKind(TRANSCRIBE)]))
            await enqueue_captions(connection, enqueuer, video["id"], priority)
        await note_findable(connection, video["id"])
        await queries.tell.run(connection, id=video["id"])


async def give_up(settings: Settings, connection: Connection, jobs: Sequence[Moved]) -> None:
    """Failed for good. A stream that plays stays, and its video ready, with the error of the new one."""
    for job in jobs:
        video = await _lock(connection, job)
        if video is None:
            continue
        error = (job.error or job.reason or "failed")[:ERROR_CHARACTERS]
        await _stop(connection, video, job, "failed", error)
        await _move(connection, video["id"], "failed" if video["output"] is None else "ready", error)
        if settings.video_clean_partial:
            await forget_kept(connection, [job.job_id])
            await storage_of(settings).drop(connection, kept_folder(job.job_id))


async def release(connection: Connection, jobs: Sequence[Moved]) -> None:
    """Back in the queue: another worker will go on."""
    for job in jobs:
        video = await _lock(connection, job)
        if video is not None:
            await _stop(connection, video, job, "pending", None)
            error = None if job.error is None else job.error[:ERROR_CHARACTERS]
            await _move(connection, video["id"], "pending" if video["output"] is None else "ready", error)


async def _stop(connection: Connection, video: Record, job: Moved, state: str, error: str | None) -> None:
    await queries.stop_qualities.run(
        connection, video_id=video["id"], job_id=job.job_id, state=state, error=error
    )


async def note_progress(connection: Connection, job: ClaimedJob, parts: Mapping[str, Any]) -> None:
    """How far each quality is, as the worker says; what makes no sense is left out."""
    video_id = _id_of(job.subject_id)
    if video_id is None or await queries.lock_video.row(connection, id=video_id) is None:
        return
    for quality in QUALITIES:
        told = parts.get(quality)
        if isinstance(told, Mapping) and told.get("state") in STATES:
            error = told.get("error")
            await queries.note_quality.run(
                connection,
                video_id=video_id,
                job_id=job.id,
                quality=quality,
                state=told["state"],
                segments_total=_count(told.get("segments_total")),
                segments_done=_count(told.get("segments_done")),
                percent=_percent(told.get("percent")),
                error=None if error is None else str(error)[:ERROR_CHARACTERS].replace("\0", ""),
            )


async def keep_transcript(place: Place, connection: Connection, jobs: Sequence[Moved]) -> None:
    """What was heard; nothing said is no failure."""
    for job in jobs:
        video = await _lock(connection, job)
        if video is None:
            continue
        segments = await _segments(connection, place, job)
        language = _heard(job).get("language")
        language = language if isinstance(language, str) else None
        text = " ".join(segment.text.strip() for segment in segments)
        told = [{"start": one.start_seconds, "end": one.end_seconds, "text": one.text} for one in segments]
        await queries.keep_captions.run(
            connection,
            id=video["id"],
            captions=write_captions(segments, language) if segments else None,
            transcript=json.dumps({"language": language, "text": text, "segments": told}),
            state="ready" if segments else "silent",
            error=None,
        )
        await note_findable(connection, video["id"])
        await queries.tell.run(connection, id=video["id"])


async def note_no_transcript(connection: Connection, jobs: Sequence[Moved]) -> None:
    """The captions failed; the video plays without, or with those that it had."""
    for job in jobs:
        video = await _lock(connection, job)
        if video is not None:
            error = (job.error or job.reason or "failed")[:ERROR_CHARACTERS]
            await queries.note_captions.run(connection, id=video["id"], state="failed", error=error)
            await queries.tell.run(connection, id=video["id"])


def _heard(job: Moved) -> Mapping[str, Any]:
    """What the audio processor found out, as far as it is there."""
    facts = job.result.get("facts") if isinstance(job.result, Mapping) else None
    return facts if isinstance(facts, Mapping) else {}


async def _segments(connection: Connection, place: Place, job: Moved) -> list[Segment]:
    """From the result, or from the file that a long one was written to. Either may be anybody's."""
    found = _heard(job).get("segments") or []
    files = job.result.get("files") if isinstance(job.result, Mapping) else None
    path = files.get("segments.json", {}).get("path") if isinstance(files, Mapping) else None
    if not found and isinstance(path, str):
        own = rf"derivatives/\d{{3}}/{job.job_id}-\d+/segments\.json"
        if re.fullmatch(own, path):
            found = json.loads(await read_text(connection, place, path, SEGMENTS_BYTES) or "[]")
    return [
        Segment(float(one["start"]), float(one["end"]), str(one["text"]).replace("\0", ""))
        for one in found
        if isinstance(one, Mapping) and {"start", "end", "text"} <= one.keys()
    ]


async def _move(connection: Connection, video_id: UUID, state: str, error: str | None) -> None:
    await queries.move.run(connection, id=video_id, state=state, error=error)
    await queries.tell.run(connection, id=video_id)


async def _lock(connection: Connection, job: Moved) -> Record | None:
    video_id = _id_of(job.subject_id)
    return None if video_id is None else await queries.lock_video.row(connection, id=video_id)


def _id_of(subject_id: str | None) -> UUID | None:
    try:
        return UUID(subject_id or "")
    except ValueError:
        return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1_000_000_000 else None


def _percent(value: Any) -> float | None:
    return min(100.0, max(0.0, float(value))) if isinstance(value, int | float) else None
