"""The page of one project file: the rendered page with the place marked, and the proposals to be decided beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.priority import read_priority
from mediamill.errors import InvalidError, MediamillError
from mediamill.intake import findings, proposals
from mediamill.intake.again import delete_file, reprocess, set_file_priority
from mediamill.intake.categories import set_category
from mediamill.intake.look import page_texts, show_file
from mediamill.intake.model import UnknownFileError
from mediamill.intake.pages import MOST_ID, write_place
from mediamill.intake.projects import show_project
from mediamill.intake.read_on import read_on
from mediamill.processors.intake.summary import KINDS
from mediamill.settings import Settings
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer, status_of
from mediamill.ui.sheet import choose, groups_of, is_open, make_sheet

LIVE = "projects/file_live.html"
Id = Annotated[int, InPath(ge=1, le=2**63 - 1)]
Proposal = Annotated[int | None, Query(ge=1, le=2**63 - 1)]
Page = Annotated[int | None, Query(ge=1, le=100_000)]
Decide = Callable[[Connection, int], Awaitable[object]]


def add_review_page(
    router: APIRouter, renderer: Renderer, database: Database, enqueuer: Enqueuer, settings: Settings
) -> None:
    """Its routes."""
    page = _ReviewPage(renderer, database, enqueuer, settings)
    file = "/projects/{slug}/files/{file_id}"
    router.get(file)(page.show)
    router.post(f"{file}/reprocess")(page.reprocess)
    router.post(f"{file}/category")(page.category)
    router.post(f"{file}/read-on")(page.read_on)
    router.post(f"{file}/priority")(page.set_priority)
    router.post(f"{file}/delete")(page.delete)
    router.post(f"{file}/accept")(page.accept_all)
    router.post(f"{file}/values")(page.enter)
    router.post(f"{file}/findings/{{finding_id}}/field")(page.make_field)
    router.post(f"{file}/findings/{{finding_id}}/drop")(page.drop_finding)
    router.post(f"{file}/proposals/{{proposal_id}}/accept")(page.accept)
    router.post(f"{file}/proposals/{{proposal_id}}/reject")(page.reject)
    router.post(f"{file}/proposals/{{proposal_id}}/reopen")(page.reopen)


class _ReviewPage:
    def __init__(
        self, renderer: Renderer, database: Database, enqueuer: Enqueuer, settings: Settings
    ) -> None:
        self._renderer, self._database = renderer, database
        self._enqueuer, self._settings = enqueuer, settings

    async def show(
        self,
        slug: str,
        file_id: Id,
        proposal: Proposal = None,
        page: Page = None,
        part: str | None = None,
        done: bool = False,
    ) -> HTMLResponse:
        """`proposal`: the one whose place is marked; `page`: the one to be seen; `part`: only what changes."""
        return await self._page(slug, file_id, LIVE if part else None, chosen=proposal, page=page, done=done)

    async def reprocess(self, request: Request, slug: str, file_id: Id) -> Response:
        """Again: if it failed or is outdated; with `force` anyway."""
        force = "force" in await read_form(request)
        async with self._database.transaction() as connection:
            await reprocess(connection, self._enqueuer, self._settings, file_id, force=force)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}", 303)

    async def category(self, request: Request, slug: str, file_id: Id) -> Response:
        """What the file is; nothing: the rules, or its words, say it."""
        said = (await read_form(request)).get("category", [""])[0].strip() or None
        async with self._database.transaction() as connection:
            await set_category(connection, self._enqueuer, self._settings, file_id, said)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}#facts", 303)

    async def read_on(self, slug: str, file_id: Id) -> Response:
        """The pages that were left out."""
        async with self._database.transaction() as connection:
            await read_on(connection, self._enqueuer, self._settings, file_id)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}", 303)

    async def set_priority(self, request: Request, slug: str, file_id: Id) -> Response:
        """Sooner or later than others."""
        priority = read_priority((await read_form(request)).get("priority", [""])[0])
        async with self._database.transaction() as connection:
            await set_file_priority(connection, file_id, priority)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}", 303)

    async def delete(self, slug: str, file_id: Id) -> Response:
        """For good; back to the project."""
        async with self._database.transaction() as connection:
            await delete_file(connection, file_id)
        return RedirectResponse(f"/projects/{slug}", 303)

    async def accept_all(self, slug: str, file_id: Id) -> Response:
        """The surest of each field that has none yet."""
        async with self._database.transaction() as connection:
            await proposals.accept_all(connection, slug, file_id=file_id)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}?done=1", 303)

    async def accept(self, request: Request, slug: str, file_id: Id, proposal_id: Id) -> Response:
        """As it is, or with the value that was typed; one that cannot be it is told beside it."""
        form = await read_form(request)
        value = form["value"][0] if "value" in form else None
        try:
            async with self._database.transaction() as connection:
                await proposals.accept(connection, proposal_id, value)
        except MediamillError as error:
            faulty = {"id": proposal_id, "field": None, "value": value or "", "why": _why(error)}
            return await self._page(
                slug, file_id, status_code=status_of(error), chosen=proposal_id, faulty=faulty
            )
        return await self._next(slug, file_id, proposal_id)

    async def enter(self, request: Request, slug: str, file_id: Id) -> Response:
        """What a person knows of a field; one that cannot be its value is told beside it."""
        form = await read_form(request)
        field, value = (form.get(name, [""])[0] for name in ("field", "value"))
        try:
            async with self._database.transaction() as connection:
                entered = await proposals.enter_value(connection, file_id, field, value)
        except InvalidError as error:
            faulty = {"id": None, "field": field, "value": value, "why": _why(error)}
            return await self._page(slug, file_id, status_code=status_of(error), faulty=faulty)
        return RedirectResponse(_address(slug, file_id, entered["id"]), 303)

    async def make_field(self, request: Request, slug: str, file_id: Id, finding_id: Id) -> Response:
        """What fits no field becomes one, or the value of the field that was chosen."""
        field = (await read_form(request)).get("field", [""])[0] or None
        async with self._database.transaction() as connection:
            await findings.make_field(connection, finding_id, field)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}#unmapped", 303)

    async def drop_finding(self, slug: str, file_id: Id, finding_id: Id) -> Response:
        """Nobody wants to know it."""
        async with self._database.transaction() as connection:
            await findings.drop_finding(connection, finding_id)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}#unmapped", 303)

    async def reject(self, slug: str, file_id: Id, proposal_id: Id) -> Response:
        """It is wrong."""
        return await self._decide(proposals.reject, slug, file_id, proposal_id)

    async def reopen(self, slug: str, file_id: Id, proposal_id: Id) -> Response:
        """It waits again."""
        async with self._database.transaction() as connection:
            await proposals.reopen(connection, proposal_id)
        return RedirectResponse(_address(slug, file_id, proposal_id), 303)

    async def _decide(self, verb: Decide, slug: str, file_id: int, proposal_id: int) -> Response:
        async with self._database.transaction() as connection:
            await verb(connection, proposal_id)
        return await self._next(slug, file_id, proposal_id)

    async def _next(self, slug: str, file_id: int, proposal_id: int) -> Response:
        """On to what is still open in this file."""
        async with self._database.connection() as connection:
            file = await show_file(connection, self._settings, file_id)
            project = await show_project(connection, slug)
        groups = groups_of(project["fields"], file["proposals"])
        listed = [(one, group) for group in groups for one in group["proposals"]]
        place = next((number for number, (one, _) in enumerate(listed) if one["id"] == proposal_id), 0)
        for one, group in (*listed[place + 1 :], *listed[:place]):
            if is_open(one, group):
                return RedirectResponse(_address(slug, file_id, one["id"]), 303)
        return RedirectResponse(f"/projects/{slug}/files/{file_id}?done=1", 303)

    async def _page(
        self,
        slug: str,
        file_id: int,
        template: str | None = None,
        *,
        status_code: int = 200,
        chosen: int | None = None,
        page: int | None = None,
        done: bool = False,
        faulty: dict[str, Any] | None = None,
    ) -> HTMLResponse:
        async with self._database.connection() as connection:
            file = await show_file(connection, self._settings, file_id)
            if file["project"] != slug:
                raise UnknownFileError
            project = await show_project(connection, slug)
            texts = await page_texts(connection, file_id)
            following = await _following(connection, slug, file_id)
        groups = groups_of(project["fields"], file["proposals"])
        marked = choose(groups, chosen, page)
        return self._renderer.page(
            template or "projects/file.html",
            status_code,
            file=file,
            project=project,
            groups=groups,
            chosen=marked,
            sheet=make_sheet(file, texts, marked, page),
            following=following,
            open_count=sum(is_open(one, group) for group in groups for one in group["proposals"]),
            done=done,
            faulty=faulty,
            categories=_categories(project, file),
        )


def _categories(project: dict[str, Any], file: dict[str, Any]) -> list[str]:
    """What the file may be: what the project knows of, and what documents call themselves."""
    known = [rule["category"] for rule in project["category_rules"]]
    known += [each for field in project["fields"] for each in field["categories"]]
    return sorted({*known, *KINDS, *([file["category"]] if file["category"] else [])}, key=str.casefold)


async def _following(connection: Connection, slug: str, file_id: int) -> int | None:
    """The next file with something to decide, round and round."""
    for after in (write_place(file_id, MOST_ID), None):
        page = await proposals.list_proposals(connection, slug, after=after, amount=1)
        for one in page["proposals"]:
            return None if one["file_id"] == file_id else int(one["file_id"])
    return None


def _why(error: MediamillError) -> str:
    return f"{error.message}{f'; {error.fix}' if error.fix else ''}"


def _address(slug: str, file_id: int, proposal_id: int) -> str:
    return f"/projects/{slug}/files/{file_id}?proposal={proposal_id}#p{proposal_id}"
