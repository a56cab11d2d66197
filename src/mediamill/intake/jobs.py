"""The job kind of intake, and how an analysis moves with its job, and its files with it: always in the job's own
transaction. The only place where an analysis is completed is `complete`, and nothing but a good result gets there."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection, after_commit
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import MAX_ATTEMPTS_EXHAUSTED, STALE_REQUEUED, Moved
from mediamill.errors import GiveUpError
from mediamill.intake.attach import settle_files
from mediamill.intake.model import ANALYSE, ERROR_CHARACTERS, id_of
from mediamill.intake.read_on import keep_pages
from mediamill.intake.result import read_result
from mediamill.intake.store import queries
from mediamill.logs import tell_facts
from mediamill.settings import Settings
from mediamill.storage.choose import Place, storage_of

log = logging.getLogger(__name__)

REQUEUED = "requeued"  # the reason of a dead job that shall run again


class FileGoneError(GiveUpError):
    """No file needs this analysis any more."""

    code = "file_gone"


def intake_kinds(settings: Settings) -> tuple[JobKind, ...]:
    """The kind, for a process with these settings."""
    return (
        JobKind(
            ANALYSE,
            on_claimed=begin,
            on_completed=partial(complete, storage_of(settings)),
            on_failed=give_up,
            on_released=release,
            on_requeued=take_back,
            counted_by=content_of,
            requeue_fix="`mediamill intake reprocess FILE` tries a failed file again",
            keeps_files=True,
            limits_steps=True,
            local=True,
            description="Reads a file of a project: its text, pictures of its pages, and the fields that the project "
            "asks for, each with how sure it is and where it stands.",
        ),
    )


def content_of(payload: Mapping[str, Any]) -> str | None:
    """What stays the same when a failed file is tried again, which makes another analysis."""
    match payload:
        case {"file": {"stored": str(name)}}:
            return name
    return None


async def begin(connection: Connection, jobs: Sequence[Moved]) -> None:
    """Claimed: processing, for every file that has this analysis."""
    for job in jobs:
        analysis = await _lock(connection, job)
        if analysis is None:
            raise FileGoneError
        await queries.begin_analysis.run(connection, id=analysis["id"], attempts=job.attempts)
        files = await _files(connection, analysis)
        _tell_log(
            connection,
            logging.INFO,
            "file_processing_started",
            files,
            attempt=job.attempts,
            is_retry=job.attempts > 1,
        )


async def complete(place: Place, connection: Connection, jobs: Sequence[Moved]) -> None:
    """Done: what was found is kept, and every file of this content gets its proposals."""
    for job in jobs:
        if await _lock(connection, job) is None:  # all its files are gone: what was made is swept
            continue
        made = await read_result(connection, place, job)
        analysis = await queries.complete_analysis.row(
            connection,
            id=id_of(job.subject_id),
            mime_type=made.mime_type,
            text=made.text,
            summary=made.summary,
            result=json.dumps(made.told),
            page_texts=json.dumps(made.page_texts),
            output=made.output,
        )
        assert analysis is not None
        await keep_pages(connection, place, job, made)
        files = await _files(connection, analysis, tell=False)
        await settle_files(connection, analysis, [file["id"] for file in files])
        facts = {"attempt": job.attempts, "duration_ms": analysis["duration_ms"]}
        _tell_log(connection, logging.INFO, "file_processing_completed", files, **facts)


async def give_up(connection: Connection, jobs: Sequence[Moved]) -> None:
    """Failed for good, with the reason."""
    spent = 0
    for job in jobs:
        if await _lock(connection, job) is None:
            continue
        error = _error_of(job)
        analysis = await queries.fail_analysis.row(connection, id=id_of(job.subject_id), error=error)
        assert analysis is not None
        files = await _files(connection, analysis)
        exhausted = job.reason == MAX_ATTEMPTS_EXHAUSTED
        facts = {
            "attempt": job.attempts,
            "duration_ms": analysis["duration_ms"],
            "permanent": job.reason == "permanent",
            "attempts_exhausted": exhausted,
            "reason": error,
        }
        _tell_log(connection, logging.ERROR, "file_processing_failed", files, **facts)
        spent += len(files) if exhausted else 0
    _tell_count(connection, logging.WARNING, "exhausted_files_marked_failed", spent)


async def release(connection: Connection, jobs: Sequence[Moved]) -> None:
    """Back in the queue: it will be tried again."""
    stale = 0
    for job in jobs:
        if await _lock(connection, job) is None:
            continue
        error = None if job.error is None else job.error[:ERROR_CHARACTERS]
        analysis = await queries.release_analysis.row(
            connection, id=id_of(job.subject_id), error=error, fresh=job.reason == REQUEUED
        )
        assert analysis is not None
        files = await _files(connection, analysis)
        facts = {
            "attempt": job.attempts,
            "duration_ms": analysis["took_ms"],
            "reason": error or job.reason,
        }
        _tell_log(connection, logging.WARNING, "file_processing_retry", files, **facts)
        stale += len(files) if job.reason == STALE_REQUEUED else 0
    _tell_count(connection, logging.INFO, "stale_files_requeued", stale)


async def take_back(connection: Connection, jobs: Sequence[Moved]) -> set[int]:
    """Dead jobs that shall run again: those whose analysis failed with them, and still has files."""
    rows = await queries.take_back.rows(
        connection, ids=[id_of(job.subject_id) for job in jobs], jobs=[job.job_id for job in jobs]
    )
    return {row["job_id"] for row in rows}


async def _lock(connection: Connection, job: Moved) -> Record | None:
    return await queries.lock_analysis.row(connection, id=id_of(job.subject_id), job=job.job_id)


async def _files(connection: Connection, analysis: Record, *, tell: bool = True) -> list[Record]:
    files = await queries.files_of_analysis.rows(connection, analysis=analysis["id"])
    if tell:
        await queries.tell_files.run(connection, ids=[file["id"] for file in files])
    return files


def _error_of(job: Moved) -> str:
    """That the attempts are used up is said before what the last one said."""
    error = job.error or job.reason or "failed"
    if job.reason == MAX_ATTEMPTS_EXHAUSTED and not error.startswith(MAX_ATTEMPTS_EXHAUSTED):
        error = f"{MAX_ATTEMPTS_EXHAUSTED}: {error}"
    return error[:ERROR_CHARACTERS]


def _tell_log(connection: Connection, level: int, event: str, files: Sequence[Record], **facts: Any) -> None:
    """A line for each file, when the transaction has ended."""

    def write() -> None:
        for file in files:
            tell_facts(log, level, event, file=file["id"], project=file["slug"], **facts)

    after_commit(connection, write)


def _tell_count(connection: Connection, level: int, event: str, count: int) -> None:
    """One line for a batch, when the transaction has ended."""
    if count:
        after_commit(connection, lambda: tell_facts(log, level, event, count=count))
