"""The pages of projects: all of them, and one with its files, its field catalog and what can be done with it."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.rules import Engine
from mediamill.errors import MediamillError
from mediamill.intake.again import reprocess_project
from mediamill.intake.categories import set_rules
from mediamill.intake.fields import set_fields
from mediamill.intake.look import list_files
from mediamill.intake.model import STATES, TYPES
from mediamill.intake.projects import add_project, delete_project, edit_project, list_projects, show_project
from mediamill.intake.proposals import accept_all, list_proposals
from mediamill.settings import Settings
from mediamill.ui.field_form import MOST_INPUTS, read_catalog, rows_of
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer, status_of
from mediamill.ui.review_page import add_review_page
from mediamill.ui.value_table import read_table

PAGE_FILES = 50
BLANK = {"name": "", "description": "", "watch_path": ""}
SURE = 0.9  # what is accepted without a look has to be at least so sure
After = Annotated[str | None, Query(max_length=20)]
By = Annotated[str, Query(max_length=60)]
Which = Literal["accepted", "all"]


def add_project_pages(
    router: APIRouter, renderer: Renderer, database: Database, engine: Engine, settings: Settings
) -> None:
    """Their routes."""
    enqueuer = Enqueuer(engine.kinds, engine.payload_limit_bytes)
    pages = _ProjectPages(renderer, database, enqueuer, settings)
    router.get("/projects")(pages.all)
    router.post("/projects")(pages.create)
    router.get("/projects/{slug}")(pages.one)
    router.get("/projects/{slug}/values")(pages.values)
    router.post("/projects/{slug}/edit")(pages.edit)
    router.post("/projects/{slug}/fields")(pages.fields)
    router.post("/projects/{slug}/reprocess")(pages.reprocess)
    router.post("/projects/{slug}/accept")(pages.accept)
    router.post("/projects/{slug}/delete")(pages.delete)
    add_review_page(router, renderer, database, enqueuer, settings)


class _ProjectPages:
    def __init__(
        self, renderer: Renderer, database: Database, enqueuer: Enqueuer, settings: Settings
    ) -> None:
        self._renderer, self._database = renderer, database
        self._enqueuer, self._settings = enqueuer, settings

    async def all(self, part: str | None = None) -> HTMLResponse:
        """Every project, and a form for a new one; with `part` only the list."""
        return await self._all("projects/list.html" if part else "projects/all.html")

    async def create(self, request: Request) -> Response:
        """A new project from the form; a fault is told above the form, with all that was typed still in it."""
        given = await _texts(request)
        try:
            async with self._database.transaction() as connection:
                slug = await add_project(
                    connection,
                    given["name"],
                    description=given["description"],
                    watch_path=given["watch_path"] or None,
                )
        except MediamillError as error:
            return await self._all("projects/all.html", status_of(error), form=given, fault=told(error))
        return RedirectResponse(f"/projects/{slug}#fields", 303)

    async def one(
        self, slug: str, state: str = "", after: After = None, part: str | None = None, done: str = ""
    ) -> HTMLResponse:
        """Its files, newest first; with `part` only what changes. `done`: what the reader did just now."""
        return await self._one(
            slug, "projects/live.html" if part else "projects/one.html", state=state, after=after, done=done
        )

    async def values(
        self, slug: str, by: By = "", down: bool = False, which: Which = "accepted"
    ) -> HTMLResponse:
        """What was found out, as a table: a row for each file, sorted by any column."""
        async with self._database.transaction() as connection:
            project = await show_project(connection, slug)
            table = await read_table(connection, slug, project["fields"], by=by, down=down, which=which)
        return self._renderer.page(
            "projects/values.html", project=project, table=table, by=by, down=down, which=which, query=_query
        )

    async def edit(self, request: Request, slug: str) -> Response:
        """Name, description and watched folder."""
        given = await _texts(request)
        try:
            async with self._database.transaction() as connection:
                await edit_project(connection, slug, **{name: given[name] for name in BLANK})
                await set_rules(connection, slug, _rules(given["rules"]))
        except MediamillError as error:
            return await self._one(
                slug, "projects/one.html", status_of(error), edit_fault=told(error), form=given
            )
        return RedirectResponse(f"/projects/{slug}?done=saved", 303)

    async def fields(self, request: Request, slug: str) -> Response:
        """The whole catalog as it stands in the form."""
        form = await read_form(request, MOST_INPUTS)
        try:
            async with self._database.transaction() as connection:
                await set_fields(connection, slug, read_catalog(form))
        except MediamillError as error:
            return await self._one(
                slug, "projects/one.html", status_of(error), fields_fault=told(error), rows=rows_of(form)
            )
        return RedirectResponse(f"/projects/{slug}?done=fields", 303)

    async def reprocess(self, request: Request, slug: str) -> Response:
        """What failed or is outdated; with `force` everything."""
        force = "force" in await read_form(request)
        told_ = await reprocess_project(self._database, self._enqueuer, self._settings, slug, force=force)
        return RedirectResponse(f"/projects/{slug}?done={told_['started']}+again", 303)

    async def accept(self, slug: str) -> Response:
        """The surest of each field, where it is sure enough."""
        async with self._database.transaction() as connection:
            count = await accept_all(connection, slug, minimum_confidence=SURE)
        return RedirectResponse(f"/projects/{slug}?done={count}+accepted", 303)

    async def delete(self, slug: str) -> Response:
        """For good."""
        async with self._database.transaction() as connection:
            await delete_project(connection, slug)
        return RedirectResponse("/projects", 303)

    async def _all(
        self,
        template: str,
        status_code: int = 200,
        *,
        form: dict[str, str] | None = None,
        fault: str | None = None,
    ) -> HTMLResponse:
        async with self._database.connection() as connection:
            found = await list_projects(connection)
        return self._renderer.page(template, status_code, projects=found, form=form or BLANK, fault=fault)

    async def _one(
        self,
        slug: str,
        template: str,
        status_code: int = 200,
        *,
        state: str = "",
        after: str | None = None,
        done: str = "",
        form: dict[str, str] | None = None,
        rows: list[dict[str, str]] | None = None,
        edit_fault: str | None = None,
        fields_fault: str | None = None,
    ) -> HTMLResponse:
        wanted = state if state in STATES else ""
        async with self._database.connection() as connection:
            project = await show_project(connection, slug)
            page = await list_files(
                connection,
                self._settings,
                slug,
                state=wanted or None,
                after=after or None,
                amount=PAGE_FILES,
            )
            waiting = await list_proposals(connection, slug, amount=1)
        return self._renderer.page(
            template,
            status_code,
            project=project,
            files=page["files"],
            next=page["next"],
            first=waiting["proposals"][0]["file_id"] if waiting["proposals"] else None,
            state=wanted,
            states=STATES,
            after=after,
            query=_query,
            done=_done(done),
            limit_bytes=self._settings.upload_limit_bytes,
            types=TYPES,
            rows=rows or project["fields"],
            form=form or {**{name: project[name] or "" for name in BLANK}, "rules": _lines(project)},
            edit_fault=edit_fault,
            fields_fault=fields_fault,
            sure=SURE,
        )


def told(error: MediamillError) -> str:
    """An error with what to do about it."""
    return f"{error.message}{f' ({error.fix})' if error.fix else ''}"


def _query(**given: Any) -> str:
    """The end of an address, without what is empty."""
    return urlencode({name: value for name, value in given.items() if value})


def _done(done: str) -> str:
    """What was done, in words; anything else that is in the address is nobody's word."""
    number, _, what = done.partition(" ")
    count = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else None
    match what, count:
        case "again", 0:
            return "Everything is up to date."
        case "again", int():
            return f"{count:,} file{'' if count == 1 else 's'} analysed again."
        case "accepted", int():
            return f"{count:,} value{'' if count == 1 else 's'} accepted."
    return {"saved": "Saved.", "fields": "The fields are saved."}.get(done, "")


async def _texts(request: Request) -> dict[str, str]:
    form = await read_form(request)
    return {name: form.get(name, [""])[0].strip() for name in (*BLANK, "rules")}


def _rules(text: str) -> list[dict[str, str]]:
    """`*receipt* = Receipt`, a rule in each line."""
    told = [line.rpartition("=") for line in text.splitlines() if line.strip()]
    return [{"pattern": pattern, "category": category} for pattern, _, category in told]


def _lines(project: dict[str, Any]) -> str:
    return "\n".join(f"{rule['pattern']} = {rule['category']}" for rule in project["category_rules"])
