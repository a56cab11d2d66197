"""The dead letter: list, show, requeue, purge."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from mediamill.api.deps import Id, Wired
from mediamill.api.jobs import Amount, Before, Choice, Text
from mediamill.engine import browse, dead, watch

router = APIRouter(prefix="/api/dead", tags=["dead"])


class DeadChoice(Choice):
    """Which of the dead; filters narrow each other."""

    pool: Text | None = None
    reason: Text | None = None

    @property
    def filters(self) -> dict[str, str | None]:
        """As the verbs take them."""
        return {"kind": self.kind, "owner": self.owner, "pool": self.pool, "reason": self.reason}


@router.get("")
async def list_dead(
    deps: Wired,
    kind: str | None = None,
    pool: str | None = None,
    owner: str | None = None,
    reason: str | None = None,
    before: Before = None,
    amount: Amount = 50,
) -> dict[str, Any]:
    """Dead jobs, newest first; `next` is the `before` of the next page, which may follow a short one."""
    async with deps.database.connection() as connection:
        page = await browse.browse_dead(
            connection, kind=kind, pool=pool, owner=owner, reason=reason, before=before, amount=amount
        )
    return {"jobs": page.jobs, "next": page.next}


@router.get("/summary")
async def sum_up_dead(deps: Wired) -> dict[str, Any]:
    """How many died of what, by reason and kind."""
    async with deps.database.connection() as connection:
        return {"dead": await browse.sum_up_dead(connection)}


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
async def requeue_dead(deps: Wired, choice: DeadChoice) -> dict[str, list[int]]:
    """Back to the queue with fresh attempts."""
    async with deps.database.transaction() as connection:
        return {"requeued": await dead.requeue_dead(connection, deps.engine, choice.ids, **choice.filters)}


@router.post("/purge")
async def purge_dead(deps: Wired, choice: DeadChoice) -> dict[str, list[int]]:
    """Forget them for good."""
    async with deps.database.transaction() as connection:
        return {"purged": await dead.purge_dead(connection, choice.ids, **choice.filters)}
