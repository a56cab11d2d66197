"""The pages of jobs: all of them by filters, and one with everything that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Connection, Database
from mediamill.engine import browse, dead, pools, watch
from mediamill.engine.model import State
from mediamill.engine.rules import Engine
from mediamill.errors import ConflictError, MediamillError
from mediamill.ui.rendering import Renderer, status_of
from mediamill.ui.subjects import subjects_of
from mediamill.ui.words import span

PAGE_JOBS = 50
Id = Annotated[int, InPath(ge=1, le=2**63 - 1)]
Before = Annotated[int | None, Query(ge=1, le=2**63 - 1)]
Text = Annotated[str, Query(max_length=500)]
ENDED = ("finished_at", "failed_at")


@dataclass(frozen=True, slots=True)
class Filter:
    """What the reader wants to see. Empty: all."""

    state: str = ""
    kind: str = ""
    pool: str = ""
    owner: str = ""
    reason: str = ""  # of the dead

    @property
    def chosen(self) -> dict[str, str]:
        """What is not left open."""
        named = {"state": self.state, "kind": self.kind, "pool": self.pool, "owner": self.owner}
        return {name: value for name, value in {**named, "reason": self.reason}.items() if value}

    def query(self, **more: Any) -> str:
        """As the end of an address."""
        return urlencode({name: value for name, value in {**self.chosen, **more}.items() if value})


def add_job_pages(router: APIRouter, renderer: Renderer, database: Database, engine: Engine) -> None:
    """Their routes."""
    pages = _JobPages(renderer, database, engine)
    router.get("/jobs")(pages.all)
    router.get("/jobs/{job_id}")(pages.one)
    router.post("/jobs/{job_id}/retry")(pages.retry)
    router.post("/jobs/{job_id}/purge")(pages.purge)


class _JobPages:
    def __init__(self, renderer: Renderer, database: Database, engine: Engine) -> None:
        self._renderer, self._database, self._engine = renderer, database, engine

    async def all(
        self,
        state: Text = "",
        kind: Text = "",
        pool: Text = "",
        owner: Text = "",
        id: Text = "",
        before: Before = None,
        part: str | None = None,
    ) -> Response:
        """The newest jobs, or those that are asked for; with an id that one's page, with `part` only the list."""
        asked = id.strip().lstrip("#")
        if asked.isdecimal() and 1 <= int(asked) < 2**63:
            return RedirectResponse(f"/jobs/{int(asked)}", 303)
        wanted = Filter(state if state in list(State) else "", kind.strip(), pool.strip(), owner.strip())
        async with self._database.connection() as connection:
            page = await browse.browse_jobs(connection, **_given(wanted), before=before, amount=PAGE_JOBS)
            known = [one.name for one in await pools.list_pools(connection)]
            subjects = await subjects_of(connection, page.jobs)
        return self._renderer.page(
            "jobs/list.html" if part else "jobs/all.html",
            page=page,
            subjects=subjects,
            wanted=wanted,
            before=before,
            asked=asked,
            states=list(State),
            pools=known,
            kinds=self._engine.kinds.names(),
        )

    async def one(self, job_id: Id) -> HTMLResponse:
        """One job, wherever it is."""
        async with self._database.connection() as connection:
            job = await watch.show_job(connection, job_id)
            told = await browse.events_of_job(connection, job_id)
            subject = (await subjects_of(connection, [job])).get(job_id)
        return self._renderer.page(
            "jobs/one.html", job=job, told=told, times=times_of(job), files=files_of(job), subject=subject
        )

    async def retry(self, job_id: Id) -> Response:
        """Run it again now; back to its page."""
        try:
            async with self._database.transaction() as connection:
                await dead.retry_job(connection, self._engine, job_id)
        except MediamillError as error:
            return self._renderer.sorry(status_of(error), error.message)
        return RedirectResponse(f"/jobs/{job_id}", 303)

    async def purge(self, job_id: Id) -> Response:
        """Forget a dead job, or cancel one that waits; back to where such jobs are."""
        async with self._database.transaction() as connection:
            then = await self._purge(connection, job_id)
        return RedirectResponse(then, 303)

    async def _purge(self, connection: Connection, job_id: int) -> str:
        if await dead.purge_dead(connection, [job_id]):
            return "/dead"
        if await dead.purge_jobs(connection, self._engine, [job_id]):
            return "/jobs"
        job = await watch.show_job(connection, job_id)
        raise ConflictError(
            f"job {job_id} is {job['state']}; only one that waits or is dead can be thrown away"
        )


def _given(wanted: Filter) -> dict[str, Any]:
    """As the verbs take it."""
    return {name: getattr(wanted, name) or None for name in ("state", "kind", "pool", "owner")}


def times_of(job: dict[str, Any]) -> list[tuple[str, datetime | None, str]]:
    """The moments of a job's life, each with how long it was after the one before."""
    ended = next((name for name in ENDED if job.get(name)), None)
    moments = [("Enqueued", job["created_at"]), ("First started", job["started_at"])]
    if job.get("claimed_at"):
        moments.append(("Last claimed", job["claimed_at"]))
    if ended is not None:
        moments.append(("Finished" if ended == "finished_at" else "Failed for good", job[ended]))
    told = []
    before: datetime | None = None
    for words, moment in moments:
        since = span((moment - before).total_seconds()) if moment and before else ""
        told.append((words, moment, since))
        before = moment or before
    return told


def files_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    """What its processor made, by the names in the result."""
    result = job.get("result")
    files = result.get("files") if isinstance(result, dict) else None
    if not isinstance(files, dict):
        return []
    return [{"name": name, **file} for name, file in files.items() if isinstance(file, dict)]
