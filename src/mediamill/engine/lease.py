"""Leases: progress and signs of life from the holder of a claim, and from nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import Claim, ClaimedJob, without_nul
from mediamill.errors import ClaimLostError, QuotaExceededError

PROGRESS_LIMIT_BYTES = 1_000_000


class ProgressTooLargeError(QuotaExceededError):
    """The progress report is too large."""

    code = "progress_too_large"


async def report_progress(
    connection: Connection,
    claim: Claim,
    *,
    lease_seconds: float,
    step: str | None = None,
    percent: float | None = None,
    parts: Any = None,
    checkpoint: Any = None,
) -> None:
    """Save progress and extend the lease; ClaimLostError if the claim is not held any more."""
    saved = await store.jobs.report_progress.value(
        connection,
        id=claim.job_id,
        token=claim.token,
        worker_id=claim.worker_id,
        step=step,
        percent=None if percent is None else min(100.0, max(0.0, percent)),
        parts=_json(parts),
        checkpoint=_json(checkpoint),
        lease_seconds=lease_seconds,
    )
    if saved is None:
        raise ClaimLostError


async def report_on_job(
    connection: Connection, kinds: Kinds, job: ClaimedJob, *, lease_seconds: float, **progress: Any
) -> None:
    """The same; and the job's subject is told of its parts, if it wants to know, in one transaction."""
    hook, parts = kinds.find(job.kind).on_progress, progress.get("parts")
    if hook is None or not isinstance(parts, Mapping):
        await report_progress(connection, job.claim, lease_seconds=lease_seconds, **progress)
        return
    async with connection.transaction():
        await report_progress(connection, job.claim, lease_seconds=lease_seconds, **progress)
        await hook(connection, job, parts)


async def extend_leases(
    connection: Connection, claims: Sequence[Claim], *, worker_id: int, lease_seconds: float
) -> set[int]:
    """Extend the leases of jobs that are still being worked on; the ids of those that are still held."""
    rows = await store.jobs.extend_leases.rows(
        connection,
        ids=[claim.job_id for claim in claims],
        tokens=[claim.token for claim in claims],
        worker_id=worker_id,
        lease_seconds=lease_seconds,
    )
    return {row[0] for row in rows}


def _json(value: Any) -> str | None:
    if value is None:
        return None
    text = without_nul(msgspec.json.encode(value))
    if len(text) > PROGRESS_LIMIT_BYTES:
        raise ProgressTooLargeError(
            f"a progress report may have {PROGRESS_LIMIT_BYTES} bytes, this has {len(text)}"
        )
    return text.decode()
