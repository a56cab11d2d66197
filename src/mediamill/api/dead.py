"""The dead letter: list, show, requeue, purge."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from mediamill.api.deps import Id, Wired
from mediamill.api.jobs import Amount, Before, Choice
from mediamill.engine import dead, watch
from mediamill.errors import InvalidError

router = APIRouter(prefix="/api/dead", tags=["dead"])


@router.get("")
async def list_dead(
    deps: Wired,
    kind: str | None = None,
    owner: str | None = None,
    reason: str | None = None,
    before: Before = None,
    amount: Amount = 50,
) -> dict[str, Any]:
    """Dead jobs, newest first; `next` is the `before` of the next page."""
    async with deps.database.connection() as connection:
        jobs = await dead.list_dead(
            connection, kind=kind, owner=owner, reason=reason, before=before, amount=amount
        )
    return {"jobs": jobs, "next": jobs[-1]["id"] if len(jobs) == amount else None}


@router.get("/{job_id}")
async def show_dead(deps: Wired, job_id: Id) -> dict[str, Any]:
    """One dead job with its whole error and traceback."""
    async with deps.database.connection() as connection:
        job = await watch.show_job(connection, job_id)
    if job["state"] != "dead":
        raise dead.UnknownJobError(
            f"job {job_id} is not dead but {job['state']}", fix=f"see /api/jobs/{job_id}"
        )
    return job


@router.post("/requeue")
async def requeue_dead(deps: Wired, choice: Choice) -> dict[str, list[int]]:
    """Back to the queue with fresh attempts."""
    _refuse_owner(choice)
    async with deps.database.transaction() as connection:
        return {"requeued": await dead.requeue_dead(connection, deps.engine, choice.ids, kind=choice.kind)}


@router.post("/purge")
async def purge_dead(deps: Wired, choice: Choice) -> dict[str, list[int]]:
    """Forget them for good."""
    _refuse_owner(choice)
    async with deps.database.transaction() as connection:
        return {"purged": await dead.purge_dead(connection, choice.ids, kind=choice.kind)}


def _refuse_owner(choice: Choice) -> None:
    if choice.owner is not None:
        raise InvalidError(
            "dead jobs are chosen by ids or kind, not by owner", fix="list them by owner first"
        )
