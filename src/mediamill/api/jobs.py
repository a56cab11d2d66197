"""Jobs: list, show, enqueue, retry, purge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from mediamill.api.deps import Id, Wired
from mediamill.engine import browse, dead, watch
from mediamill.engine.model import NewJob, Priority
from mediamill.errors import ConflictError, DeniedError

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

Text = Annotated[str, Field(min_length=1, max_length=500)]
Amount = Annotated[int, Query(ge=1, le=500)]
Before = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


class JobIn(BaseModel):
    """A job to be enqueued."""

    model_config = ConfigDict(extra="forbid")

    kind: Text
    payload: Any = Field(default_factory=dict)
    owner: Text = "default"
    subject_id: Text | None = None
    mime_type: Text | None = None
    priority: Literal["high", "normal", "low"] = "normal"
    pool: Text | None = None
    max_attempts: Annotated[int, Field(ge=1, le=1000)] | None = None
    run_after: datetime | None = None
    idempotency_key: Text | None = None


class Choice(BaseModel):
    """Which of many: by ids, by kind, or all of them said out loud."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[int, Field(ge=1, le=2**63 - 1)]] | None = Field(default=None, max_length=10_000)
    kind: Text | None = None
    owner: Text | None = None
    all: bool = False

    @model_validator(mode="after")
    def _says_which(self) -> Choice:
        named = self.model_dump(exclude={"all"})
        if not self.all and all(value is None for value in named.values()):
            raise ValueError('say which: "ids", "kind", "owner", or "all": true')
        return self


@router.get("")
async def list_jobs(
    deps: Wired,
    state: str | None = None,
    kind: str | None = None,
    pool: str | None = None,
    owner: str | None = None,
    before: Before = None,
    amount: Amount = 50,
) -> dict[str, Any]:
    """Jobs of all states, newest first; `next` is the `before` of the next page, which may follow a short one."""
    async with deps.database.connection() as connection:
        page = await browse.browse_jobs(
            connection, state=state, kind=kind, pool=pool, owner=owner, before=before, amount=amount
        )
    return {"jobs": page.jobs, "next": page.next}


@router.get("/{job_id}")
async def show_job(deps: Wired, job_id: Id) -> dict[str, Any]:
    """All that is known of one job."""
    async with deps.database.connection() as connection:
        return await watch.show_job(connection, job_id)


@router.post("", status_code=201)
async def enqueue_job(
    deps: Wired, job: JobIn, idempotency_key: Annotated[str | None, Header(max_length=500)] = None
) -> dict[str, int]:
    """One job; its id. With an idempotency key that is taken: the id of the job that took it."""
    given = job.model_dump(exclude={"priority", "idempotency_key"})
    new = NewJob(
        **given,
        priority=Priority[job.priority.upper()],
        idempotency_key=job.idempotency_key or idempotency_key,
    )
    if deps.engine.kinds.get(job.kind).local:
        raise DeniedError(
            f"jobs of kind {job.kind} name files of this machine and are not taken over HTTP",
            fix="use the command line on the machine itself",
        )
    async with deps.database.transaction() as connection:
        return {"id": await deps.enqueuer.enqueue_job(connection, new)}


@router.post("/purge")
async def purge_jobs(deps: Wired, choice: Choice) -> dict[str, list[int]]:
    """Throw away jobs that wait; what runs is left alone."""
    async with deps.database.transaction() as connection:
        return {
            "purged": await dead.purge_jobs(
                connection, deps.engine, choice.ids, kind=choice.kind, owner=choice.owner
            )
        }


@router.post("/{job_id}/retry")
async def retry_job(deps: Wired, job_id: Id) -> dict[str, int]:
    """Run it again now: from the dead letter, or without waiting for its back-off."""
    async with deps.database.transaction() as connection:
        await dead.retry_job(connection, deps.engine, job_id)
    return {"id": job_id}


@router.delete("/{job_id}")
async def purge_job(deps: Wired, job_id: Id) -> dict[str, int]:
    """Throw away one job that waits."""
    async with deps.database.transaction() as connection:
        if not await dead.purge_jobs(connection, deps.engine, [job_id]):
            job = await watch.show_job(connection, job_id)
            raise ConflictError(f"job {job_id} is {job['state']}; only a job that waits can be purged")
    return {"id": job_id}
