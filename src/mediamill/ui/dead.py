"""The page of the dead letter: what failed for good; run it again or forget it, singly or all of a filter."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Connection, Database
from mediamill.engine import browse, dead
from mediamill.engine.rules import Engine
from mediamill.errors import InvalidError, MediamillError
from mediamill.ui.forms import read_form
from mediamill.ui.jobs import Before, Filter, Text
from mediamill.ui.rendering import Renderer, status_of
from mediamill.ui.subjects import subjects_of

PAGE_DEAD = 25
FILTERS = ("kind", "pool", "owner", "reason")
DONE = {"requeue": "queued again", "purge": "forgotten"}


class NothingChosenError(InvalidError):
    """No job was chosen."""

    code = "nothing_chosen"


def add_dead_page(router: APIRouter, renderer: Renderer, database: Database, engine: Engine) -> None:
    """Its routes."""
    page = _DeadPage(renderer, database, engine)
    router.get("/dead")(page.show)
    router.post("/dead/requeue")(page.requeue)
    router.post("/dead/purge")(page.purge)


class _DeadPage:
    def __init__(self, renderer: Renderer, database: Database, engine: Engine) -> None:
        self._renderer, self._database, self._engine = renderer, database, engine

    async def show(
        self,
        kind: Text = "",
        pool: Text = "",
        owner: Text = "",
        reason: Text = "",
        before: Before = None,
        done: Text = "",
        part: str | None = None,
    ) -> HTMLResponse:
        """The newest of the dead, or those that are asked for; with `part` only what changes."""
        wanted = Filter("", kind.strip(), pool.strip(), owner.strip(), reason.strip())
        return await self._page(wanted, before, "dead/list.html" if part else "dead/all.html", done=done)

    async def requeue(self, request: Request) -> Response:
        """The chosen ones, or all of a filter, back to the queue."""
        return await self._act(request, "requeue")

    async def purge(self, request: Request) -> Response:
        """The chosen ones, or all of a filter, are forgotten."""
        return await self._act(request, "purge")

    async def _act(self, request: Request, verb: str) -> Response:
        form = await read_form(request)
        wanted = Filter(**{name: form.get(name, [""])[0].strip() for name in FILTERS})
        try:
            async with self._database.transaction() as connection:
                moved = await self._move(connection, verb, wanted, form)
        except MediamillError as error:
            fault = f"{error.message}{f' ({error.fix})' if error.fix else ''}"
            return await self._page(wanted, None, "dead/all.html", status_of(error), fault=fault)
        return RedirectResponse(f"/dead?{wanted.query(done=f'{len(moved)} {DONE[verb]}')}", 303)

    async def _move(
        self, connection: Connection, verb: str, wanted: Filter, form: dict[str, list[str]]
    ) -> list[int]:
        ids = None if "all" in form else [int(id_) for id_ in form.get("job", []) if id_.isdecimal()]
        if ids is not None and not ids:
            raise NothingChosenError("no job was chosen", fix="tick those that you mean")
        filters = wanted.chosen if ids is None else {}
        if verb == "purge":
            return await dead.purge_dead(connection, ids, **filters)
        return await dead.requeue_dead(connection, self._engine, ids, **filters)

    async def _page(
        self,
        wanted: Filter,
        before: int | None,
        template: str,
        status_code: int = 200,
        *,
        done: str = "",
        fault: str | None = None,
    ) -> HTMLResponse:
        given: dict[str, Any] = {name: getattr(wanted, name) or None for name in FILTERS}
        async with self._database.connection() as connection:
            page = await browse.browse_dead(connection, **given, before=before, amount=PAGE_DEAD)
            sums = await browse.sum_up_dead(connection)
            subjects = await subjects_of(connection, page.jobs)
            tracebacks = await browse.tracebacks_of(connection, [job["id"] for job in page.jobs])
        return self._renderer.page(
            template,
            status_code,
            page=page,
            subjects=subjects,
            tracebacks=tracebacks,
            wanted=wanted,
            before=before,
            done=done,
            fault=fault,
            counts=_by(sums, "reason"),
            kinds=_by(sums, "kind"),
            total=sum(row["jobs"] for row in sums),
            most=browse.MOST_COUNTED,
            matching=sum(row["jobs"] for row in sums if _fits(row, wanted)),
        )


def _by(sums: list[dict[str, Any]], name: str) -> dict[str, int]:
    """The sums of one column, largest first."""
    found: dict[str, int] = {}
    for row in sums:
        found[row[name]] = found.get(row[name], 0) + row["jobs"]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _fits(row: dict[str, Any], wanted: Filter) -> bool:
    return wanted.reason in ("", row["reason"]) and wanted.kind in ("", row["kind"])
