"""Projects: make, list, show, edit, delete; their field catalog, and what was accepted as a table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response, StreamingResponse

from mediamill.api.deps import Deps, Wired
from mediamill.api.file_answer import sent_as
from mediamill.api.project_shapes import (
    AcceptAllIn,
    AcceptedProposalsOut,
    FieldIn,
    FieldsIn,
    ProjectEdit,
    ProjectIn,
    ProjectOut,
    ProjectsOut,
)
from mediamill.api.video_files import attachment
from mediamill.intake import projects
from mediamill.intake.categories import set_rules
from mediamill.intake.export import write_csv, write_json
from mediamill.intake.fields import set_fields
from mediamill.intake.model import SLUG_CHARACTERS, Field
from mediamill.intake.proposals import accept_all

router = APIRouter(prefix="/api/projects", tags=["projects"])

Slug = Annotated[
    str,
    Path(min_length=1, max_length=SLUG_CHARACTERS, description="The project's slug.", examples=["invoices"]),
]
Which = Annotated[
    Literal["accepted", "all"],
    Query(description="`all`: where nothing was accepted, the best of what was proposed."),
]


@router.get("", response_model=ProjectsOut)
async def list_projects(deps: Wired) -> dict[str, Any]:
    """All of them, by name, each with its counts."""
    async with deps.database.connection() as connection:
        return {"projects": await projects.list_projects(connection)}


@router.post("", status_code=201, response_model=ProjectOut)
async def add_project(deps: Wired, wish: ProjectIn) -> dict[str, Any]:
    """A place for files of one kind, with the fields that are to be found in them."""
    async with deps.database.transaction() as connection:
        given = wish.model_dump(exclude={"fields"})
        slug = await projects.add_project(connection, **given, fields=_fields(wish.fields))
        return await projects.show_project(connection, slug)


@router.get("/{slug}", response_model=ProjectOut)
async def show_project(deps: Wired, slug: Slug) -> dict[str, Any]:
    """One of them, with its field catalog."""
    async with deps.database.connection() as connection:
        return await projects.show_project(connection, slug)


@router.patch("/{slug}", response_model=ProjectOut)
async def edit_project(deps: Wired, slug: Slug, facts: ProjectEdit) -> dict[str, Any]:
    """Another name, description, folder to be watched, or rules for categories."""
    async with deps.database.transaction() as connection:
        given = facts.model_dump()
        rules = given.pop("category_rules")
        await projects.edit_project(connection, slug, **given)
        if rules is not None:
            await set_rules(connection, slug, rules)
        return await projects.show_project(connection, slug)


@router.delete("/{slug}")
async def delete_project(deps: Wired, slug: Slug) -> dict[str, str]:
    """For good, with its files and what was decided. A watched folder is not touched."""
    async with deps.database.transaction() as connection:
        await projects.delete_project(connection, slug)
    return {"deleted": slug}


@router.put("/{slug}/fields", response_model=ProjectOut)
async def replace_fields(deps: Wired, slug: Slug, catalog: FieldsIn) -> dict[str, Any]:
    """The whole catalog anew. Files that were analysed before stay as they are until they are reprocessed."""
    async with deps.database.transaction() as connection:
        await set_fields(connection, slug, _fields(catalog.fields))
        return await projects.show_project(connection, slug)


@router.post("/{slug}/accept", response_model=AcceptedProposalsOut)
async def accept_sure_ones(deps: Wired, slug: Slug, wish: AcceptAllIn) -> dict[str, int]:
    """What waits and is sure enough is accepted: of each field of a file the surest value."""
    async with deps.database.transaction() as connection:
        accepted = await accept_all(
            connection, slug, file_id=wish.file_id, minimum_confidence=wish.minimum_confidence
        )
    return {"accepted": accepted}


@router.get(
    "/{slug}/export.csv",
    response_class=Response,
    responses=sent_as("text/csv", what="A row for each file.", binary=False),
)
async def export_csv(deps: Wired, slug: Slug, which: Which = "accepted") -> Response:
    """A table: a row for each file, a column for each field. No spreadsheet takes a text in it for a formula."""
    return await _export(deps, slug, which, "csv")


@router.get(
    "/{slug}/export.json",
    response_class=Response,
    responses={200: {"description": "A list of files.", "content": {"application/json": {"schema": {}}}}},
)
async def export_json(deps: Wired, slug: Slug, which: Which = "accepted") -> Response:
    """A list of files, each with its values and their units."""
    return await _export(deps, slug, which, "json")


async def _export(deps: Deps, slug: str, which: Literal["accepted", "all"], form: str) -> Response:
    """Streamed; that there is no such project is said before it begins."""
    async with deps.database.connection() as connection:
        await projects.show_project(connection, slug)
    media = "text/csv; charset=utf-8" if form == "csv" else "application/json"
    headers = {"Content-Disposition": attachment(f"{slug}.{form}")}
    return StreamingResponse(_rows(deps, slug, which, form), media_type=media, headers=headers)


async def _rows(deps: Deps, slug: str, which: Literal["accepted", "all"], form: str) -> AsyncIterator[str]:
    write = write_csv if form == "csv" else write_json
    async with deps.database.transaction() as connection:
        async for piece in write(connection, slug, which=which):
            yield piece


def _fields(given: list[FieldIn]) -> list[Field]:
    return [Field(**each.model_dump()) for each in given]
