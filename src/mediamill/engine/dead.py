"""The dead letter: requeue, purge. And the same for jobs that still wait."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.kinds import call_hooks
from mediamill.engine.model import Moved
from mediamill.engine.rules import Engine
from mediamill.errors import ConflictError, NotFoundError

ALL = 1_000_000


class UnknownJobError(NotFoundError):
    """There is no such job."""

    code = "unknown_job"


class OutdatedJobError(ConflictError):
    """What the job is about has moved on without it."""

    code = "outdated_job"


class FileGivenUpError(ConflictError):
    """The job's file was kept for a while, and is deleted."""

    code = "file_given_up"


async def requeue_dead(
    connection: Connection,
    engine: Engine,
    ids: Sequence[int] | None,
    *,
    kind: str | None = None,
    owner: str | None = None,
    pool: str | None = None,
    reason: str | None = None,
) -> list[int]:
    """Back to the queue with fresh attempts, their subjects told; the ids. None for `ids`: all that the filters let by.

    What its subject does not want any more, or has lost its file, stays dead; if that is all there is, OutdatedJobError
    or FileGivenUpError says so.
    """
    rows = await store.watch.lock_dead.rows(
        connection, ids=ids, kind=kind, owner=owner, pool=pool, reason=reason, amount=ALL
    )
    jobs = [store.moved(row, reason="requeued") for row in rows]
    gone = {row["id"] for row in rows if row["file_gone"]}
    wanted = await _wanted(connection, engine, [job for job in jobs if job.job_id not in gone])
    if jobs and not wanted:
        raise _refusal(engine, jobs[0], file_gone=jobs[0].job_id in gone)
    await call_hooks(connection, engine.kinds, "on_released", wanted)
    back = await store.watch.requeue_dead.rows(connection, ids=[job.job_id for job in wanted])
    return [row["id"] for row in back]


def _refusal(engine: Engine, job: Moved, *, file_gone: bool) -> ConflictError:
    """Why nothing could be requeued, told of the first."""
    if file_gone:
        return FileGivenUpError(
            f"the file of job {job.job_id} ({job.kind}) was kept for a while after it failed, and is deleted",
            fix="have the file sent again; MEDIAMILL_FAILED_MEDIA_KEEP_HOURS says how long such files are kept",
        )
    return OutdatedJobError(
        f"job {job.job_id} ({job.kind}) is outdated: what it is about has moved on",
        fix=engine.kinds.find(job.kind).requeue_fix,
    )


async def give_up_files(connection: Connection, guids: Sequence[str]) -> set[str]:
    """Which of these staged files may be deleted when this transaction is over.

    No job in the queue names them, and a dead one that does is not requeued any more.
    """
    await store.watch.give_up_files.run(connection, guids=list(guids))
    return await unnamed_files(connection, guids)


async def unnamed_files(connection: Connection, guids: Sequence[str]) -> set[str]:
    """Which of these staged files no job names, in the queue or dead with its file."""
    used = {row["subject_id"] for row in await store.watch.files_in_use.rows(connection, guids=list(guids))}
    return set(guids) - used


async def _wanted(connection: Connection, engine: Engine, jobs: Sequence[Moved]) -> list[Moved]:
    """Those whose subjects take them back; kinds that do not ask take all."""
    refused: set[int] = set()
    for name in {job.kind for job in jobs}:
        if (hook := engine.kinds.find(name).on_requeued) is not None:
            asked = [job for job in jobs if job.kind == name]
            refused |= {job.job_id for job in asked} - set(await hook(connection, asked))
    return [job for job in jobs if job.job_id not in refused]


async def purge_dead(
    connection: Connection,
    ids: Sequence[int] | None,
    *,
    kind: str | None = None,
    owner: str | None = None,
    pool: str | None = None,
    reason: str | None = None,
) -> list[int]:
    """Forget dead jobs for good; the ids. None for `ids`: all that the filters let by."""
    rows = await store.watch.lock_dead.rows(
        connection, ids=ids, kind=kind, owner=owner, pool=pool, reason=reason, amount=ALL
    )
    gone = await store.watch.purge_dead.rows(connection, ids=[row["id"] for row in rows])
    return [row["id"] for row in gone]


async def retry_job(connection: Connection, engine: Engine, job_id: int) -> None:
    """Run it again now: a dead job is requeued, one that waits for its back-off need not wait."""
    if await requeue_dead(connection, engine, [job_id]):
        return
    if await store.watch.hurry_job.value(connection, id=job_id) is not None:
        return
    job = await store.watch.show_job.row(connection, id=job_id)
    if job is None:
        finished = await store.watch.show_finished.row(connection, id=job_id)
        if finished is not None:
            raise ConflictError(f"job {job_id} has finished; there is nothing to retry")
        if await store.watch.show_dead.row(connection, id=job_id) is not None:
            raise ConflictError(
                f"job {job_id} is being requeued, purged or swept just now", fix="try again in a moment"
            )
        raise UnknownJobError(f"there is no job {job_id}", fix="mediamill jobs list shows the jobs there are")
    raise ConflictError(f"job {job_id} is {job['state']} already")


async def purge_jobs(
    connection: Connection,
    engine: Engine,
    ids: Sequence[int] | None,
    *,
    kind: str | None = None,
    owner: str | None = None,
) -> list[int]:
    """Throw away jobs that wait, their subjects told. What runs is left alone."""
    rows = await store.watch.purge_jobs.rows(connection, ids=ids, kind=kind, owner=owner, amount=ALL)
    purged = [store.moved(row, reason="purged", error="purged", final=True) for row in rows]
    await call_hooks(connection, engine.kinds, "on_failed", purged)
    return [row["id"] for row in rows]
