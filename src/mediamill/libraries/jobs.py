"""The job kinds of libraries, and how an asset moves with its job: always in the job's own transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import Moved
from mediamill.engine.settle import NOT_NOW
from mediamill.libraries.model import (
    ERROR_CHARACTERS,
    IMAGE,
    MOST_RETRIES,
    TAG,
    VIDEO,
    facts_text,
    home_of_asset,
    id_of,
    number_of,
    read_time,
)
from mediamill.libraries.store import queries
from mediamill.libraries.tagging import keep_looks, note_looks
from mediamill.libraries.twins import take_after_twins
from mediamill.libraries.video_output import begin_videos, keep_scene, keep_videos
from mediamill.settings import Settings
from mediamill.storage.choose import storage_of

PREVIEW = "preview.webp"
NONSENSE = "the result made no sense"
GONE = "not there (any more)"
TAG_FAILED, FILE_GONE, PROXY_FAILED = "tag_failed", "file_gone", "proxy_failed"  # error_code
FED = {IMAGE: "pending", VIDEO: "extracting", TAG: "analyzing"}  # what it is while it has its job
TYPE_OF = {IMAGE: "image", VIDEO: "video"}
AGAIN = {IMAGE: "pending", VIDEO: "pending", TAG: "proxied"}  # where an asset goes back to


RETRY_FIX = "`mediamill asset retry` lets a failed asset wait for a new job"


def library_kinds(settings: Settings) -> tuple[JobKind, ...]:
    """The kinds that processors run, for a process with these settings."""
    storage = storage_of(settings)
    return (
        JobKind(
            IMAGE,
            on_completed=keep_images,
            on_failed=give_up,
            on_released=note_retry,
            on_requeued=take_back,
            requeue_fix=RETRY_FIX,
            local=True,
            description="Reads an image of a library once, and makes its preview and thumbnail.",
        ),
        JobKind(
            VIDEO,
            on_claimed=partial(begin_videos, storage),
            on_completed=partial(keep_videos, storage),
            on_failed=give_up,
            on_released=note_retry,
            on_progress=keep_scene,
            on_requeued=take_back,
            requeue_fix=RETRY_FIX,
            keeps_files=True,
            local=True,
            description="Reads a video of a library once: thumbnail, head clip, and its scenes or sampled frames. "
            "Every scene is kept as soon as it ends, so that another worker can go on from there.",
        ),
        JobKind(
            TAG,
            on_completed=keep_looks,
            on_failed=give_up,
            on_released=note_retry,
            on_progress=note_looks,
            on_requeued=take_back,
            requeue_fix=RETRY_FIX,
            local=True,
            description="Looks at the preview of an image or the frames of a video: description, tags, and vectors "
            "for finding it by meaning and by look. The source is not read again.",
        ),
    )


async def keep_images(connection: Connection, jobs: Sequence[Moved]) -> None:
    """Proxied, many by one statement. An asset that has another job by now is left alone."""
    results = [(job, _read_image(job)) for job in jobs]
    made = [image for _, image in results if image is not None]
    if made:
        names = ("ids", "jobs", "outputs", "widths", "heights", "facts", "digests", "taken")
        columns = dict(zip(names, map(list, zip(*made, strict=True)), strict=True))
        kept = await queries.keep_images.rows(connection, **columns)
        await take_after_twins(connection, [row["id"] for row in kept])
    await give_up(connection, [replace(job, reason=NONSENSE) for job, image in results if image is None])


async def note_retry(connection: Connection, jobs: Sequence[Moved]) -> None:
    """It will be tried again; jobs that were handed back without an error count nothing."""
    failed = [job for job in jobs if job.error]
    if failed:
        await queries.note_retries.run(
            connection,
            ids=[id_of(job.subject_id) for job in failed],
            jobs=[job.job_id for job in failed],
            errors=[_error_of(job) for job in failed],
            counted=[0 if job.reason == NOT_NOW else 1 for job in failed],
        )
    for owner, error in {job.owner: _error_of(job) for job in failed if job.reason == NOT_NOW}.items():
        await queries.warn_library.run(connection, number=number_of(owner), warning=error)


async def give_up(connection: Connection, jobs: Sequence[Moved]) -> None:
    """The job is dead. What is wrong with the file itself is final; what took all tries poisons. An asset waits again
    if nobody came to do the job, or if the result made no sense."""
    fates = [_fate(job) for job in jobs]
    if jobs:
        await queries.give_up.run(
            connection,
            ids=[id_of(job.subject_id) for job in jobs],
            jobs=[job.job_id for job in jobs],
            errors=[_error_of(job) for job in jobs],
            codes=[_code_of(job) for job in jobs],
            statuses=[status for status, _ in fates],
            counted=[counted for _, counted in fates],
            most=MOST_RETRIES,
        )


async def take_back(connection: Connection, jobs: Sequence[Moved]) -> set[int]:
    """Dead jobs that shall run again: their assets wait for them, unless they have moved on. The ids of the jobs."""
    newest = {id_of(job.subject_id): job for job in sorted(jobs, key=lambda job: job.job_id)}
    rows = await queries.take_back_jobs.rows(
        connection,
        ids=list(newest),
        jobs=[job.job_id for job in newest.values()],
        statuses=[FED[job.kind] for job in newest.values()],
        types=[TYPE_OF.get(job.kind) for job in newest.values()],
        outputs=[_output_of(job) for job in newest.values()],
    )
    ids = [row["id"] for row in rows if row["status"] == FED[VIDEO]]
    if ids:  # scenes of another job may be there; this one's are made from what it has kept
        await queries.drop_scenes.run(connection, ids=ids)
        await queries.drop_frames.run(connection, ids=ids)
    return {row["job_id"] for row in rows}


def _output_of(job: Moved) -> str | None:
    """Whose previews a tag job looks at: they may have been made anew."""
    file = job.payload.get("file") if job.kind == TAG else None
    return str(file.get("data")).rpartition("/")[2].partition("-")[2] if isinstance(file, Mapping) else None


def _fate(job: Moved) -> tuple[str, int]:
    """Where its asset goes, and how many failures this counts for."""
    if job.reason == "abandoned":
        return AGAIN[job.kind], 0
    if job.reason == NONSENSE:
        return AGAIN[job.kind], 1
    if job.kind == TAG and _is_gone(job):  # somebody deleted the previews: they are made anew
        return "pending", 1
    return "failed", 0 if job.reason == "permanent" else 1


def _code_of(job: Moved) -> str:
    """Which step it was that failed: `asset retry` goes back to it, and a scan that finds the file looks for it."""
    return TAG_FAILED if job.kind == TAG else FILE_GONE if _is_gone(job) else PROXY_FAILED


def _is_gone(job: Moved) -> bool:
    """The file that the job reads was not there, as MissingMediaError says it."""
    return job.reason == "permanent" and (job.error or "").endswith(GONE)


def _read_image(job: Moved) -> tuple[Any, ...] | None:
    """The columns of a result, which may be anybody's: None if it makes no sense."""
    result = job.result if isinstance(job.result, Mapping) else {}
    files, digest = result.get("files"), result.get("digest")
    path = files.get(PREVIEW, {}).get("path") if isinstance(files, Mapping) else None
    own = re.fullmatch(rf"{home_of_asset(id_of(job.subject_id))}-({job.job_id}-\d+)/{PREVIEW}", str(path))
    if own is None or not re.fullmatch(r"[0-9a-f]{64}", str(digest)):
        return None
    return (
        id_of(job.subject_id),
        job.job_id,
        own[1],
        _size(result.get("width")),
        _size(result.get("height")),
        facts_text(result.get("facts")),
        digest,
        read_time(result.get("taken_at")),
    )


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < 10_000_000 else None


def _error_of(job: Moved) -> str:
    return (job.error or job.reason or "failed")[:ERROR_CHARACTERS]
