"""Files of projects: bring them in, look at them, have them analysed again; the file itself, and its pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from mediamill.api.deps import Deps, Id, Wired
from mediamill.api.errors import problem_of
from mediamill.api.file_answer import OTHER, answer_file, sent_in_ranges
from mediamill.api.inbox import Refusal, RequestBody
from mediamill.api.project_shapes import (
    CategoryIn,
    FileOut,
    FilesOut,
    FileState,
    ReprocessedOut,
    ReprocessIn,
    ReprocessOut,
)
from mediamill.api.projects import Slug
from mediamill.api.video_files import attachment
from mediamill.api.video_shapes import PriorityIn, PriorityName
from mediamill.db.connection import LOST
from mediamill.engine.priority import read_priority
from mediamill.errors import MediamillError
from mediamill.intake import again, look
from mediamill.intake.add import take_in
from mediamill.intake.categories import set_category
from mediamill.intake.model import CATEGORY_CHARACTERS, NoSuchPageError, UnknownFileError
from mediamill.intake.read_on import read_on
from mediamill.storage.choose import storage_of

router = APIRouter(tags=["project files"])

# What browsers show by themselves; everything else is only ever saved. None of it may run anything.
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp", "image/avif")
PDF = "application/pdf"
LOCKED = "sandbox; default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# A browser's own viewer shows nothing in a sandbox; it is one itself.
VIEWER = (
    "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
FileName = Annotated[
    str, Query(min_length=1, max_length=1_000, description="The file's name.", examples=["invoice.pdf"])
]
FileCategory = Annotated[
    str, Query(max_length=CATEGORY_CHARACTERS, description="What it is, if you know.", examples=["Invoice"])
]
Amount = Annotated[int, Query(ge=1, le=500)]
After = Annotated[str | None, Query(max_length=40, description="The `next` of the page before.")]
Number = Annotated[int, Path(ge=1, le=100_000, description="The page's number, from 1.")]
BODY = {"required": True, "content": {OTHER: {"schema": {"type": "string", "format": "binary"}}}}


@router.post(
    "/api/projects/{slug}/files",
    status_code=201,
    responses={201: {"model": FileOut, "description": "It is kept, and will be analysed."}},
    openapi_extra={"requestBody": BODY},
)
async def add_file(
    request: Request,
    deps: Wired,
    slug: Slug,
    name: FileName,
    category: FileCategory = "",
    priority: PriorityName = "normal",
) -> Response:
    """A file: its bytes are the body. One with the content of another takes over what that one gave."""
    body = RequestBody(request)
    length = request.headers.get("content-length", "")
    try:
        file = await take_in(
            deps.database,
            deps.enqueuer,
            deps.settings,
            slug,
            name,
            body.chunks(),
            announced_bytes=int(length) if length.isdecimal() else None,
            category=category,
            priority=read_priority(priority),
        )
        answer = FileOut.model_validate(file)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except (MediamillError, HTTPException, *LOST) as error:
        return Refusal(problem_of(error), body)
    return JSONResponse(answer.model_dump(mode="json"), 201)


@router.get("/api/projects/{slug}/files", response_model=FilesOut)
async def list_files(
    deps: Wired, slug: Slug, state: FileState | None = None, after: After = None, amount: Amount = 100
) -> dict[str, Any]:
    """A page of a project's files, newest first."""
    async with deps.database.connection() as connection:
        return await look.list_files(connection, deps.settings, slug, state=state, after=after, amount=amount)


@router.post("/api/projects/{slug}/reprocess", status_code=202, response_model=ReprocessedOut)
async def reprocess_project(deps: Wired, slug: Slug, wish: ReprocessIn | None = None) -> dict[str, int]:
    """Files that failed or are outdated, again; with `force` all of them."""
    force = wish is not None and wish.force
    return await again.reprocess_project(deps.database, deps.enqueuer, deps.settings, slug, force=force)


@router.get("/api/files/{file_id}", response_model=FileOut)
async def show_file(deps: Wired, file_id: Id) -> dict[str, Any]:
    """One file: state, text, pages, and the proposals with their places."""
    async with deps.database.connection() as connection:
        return await look.show_file(connection, deps.settings, file_id)


@router.delete("/api/files/{file_id}")
async def delete_file(deps: Wired, file_id: Id) -> dict[str, int]:
    """For good, with what was decided about it."""
    async with deps.database.transaction() as connection:
        await again.delete_file(connection, file_id)
    return {"deleted": file_id}


@router.post("/api/files/{file_id}/reprocess", response_model=ReprocessOut)
async def reprocess_file(deps: Wired, file_id: Id, wish: ReprocessIn | None = None) -> dict[str, Any]:
    """Analyse it again if it failed or is outdated; with `force` anyway. What was accepted stays."""
    force = wish is not None and wish.force
    async with deps.database.transaction() as connection:
        return await again.reprocess(connection, deps.enqueuer, deps.settings, file_id, force=force)


@router.put("/api/files/{file_id}/category", response_model=FileOut)
async def set_file_category(deps: Wired, file_id: Id, wish: CategoryIn) -> dict[str, Any]:
    """What it is. It is analysed again if other fields are looked for in such files."""
    async with deps.database.transaction() as connection:
        return await set_category(connection, deps.enqueuer, deps.settings, file_id, wish.category)


@router.post("/api/files/{file_id}/read-on", response_model=FileOut)
async def read_on_file(deps: Wired, file_id: Id) -> dict[str, Any]:
    """Read the pages that were left out (see `unread`). Pages that were read are not read again."""
    async with deps.database.transaction() as connection:
        return await read_on(connection, deps.enqueuer, deps.settings, file_id)


@router.post("/api/files/{file_id}/priority", response_model=FileOut)
async def set_priority(deps: Wired, file_id: Id, wish: PriorityIn) -> dict[str, Any]:
    """How soon it is analysed: high, normal or low, as long as it waits."""
    async with deps.database.transaction() as connection:
        await again.set_file_priority(connection, file_id, read_priority(wish.priority))
        return await look.show_file(connection, deps.settings, file_id)


@router.head("/api/files/{file_id}/source", include_in_schema=False)
@router.get(
    "/api/files/{file_id}/source",
    response_class=Response,
    responses=sent_in_ranges(*IMAGES, PDF, OTHER),
)
async def send_source(request: Request, deps: Wired, file_id: Id) -> Response:
    """The file as it came. Images and PDF are shown, everything else is saved."""
    async with deps.database.connection() as connection:
        stored, mime_type, name = await look.file_source(connection, file_id)
    file = await storage_of(deps.settings).open(deps.database, stored)
    if file is None:
        raise UnknownFileError("the file's bytes are gone", fix="add it again")
    shown = mime_type in (*IMAGES, PDF)
    named = attachment(name)
    headers = {
        "Content-Disposition": named.replace("attachment", "inline", 1) if shown else named,
        "Content-Security-Policy": VIEWER if mime_type == PDF else LOCKED,
    }
    return answer_file(request, file, mime_type if shown else OTHER, headers)


@router.head("/api/files/{file_id}/pages/{number}", include_in_schema=False)
@router.get(
    "/api/files/{file_id}/pages/{number}", response_class=Response, responses=sent_in_ranges("image/webp")
)
async def send_page(request: Request, deps: Wired, file_id: Id, number: Number) -> Response:
    """A page as a picture (WebP), if it was rendered."""
    async with deps.database.connection() as connection:
        stored = await look.page_image(connection, file_id, number)
    return await _picture(request, deps, stored, "image/webp")


@router.head("/api/files/{file_id}/thumbnail", include_in_schema=False)
@router.get("/api/files/{file_id}/thumbnail", response_class=Response, responses=sent_in_ranges("image/jpeg"))
async def send_thumbnail(request: Request, deps: Wired, file_id: Id) -> Response:
    """The small picture (JPEG), if `thumbnail` says that there is one."""
    async with deps.database.connection() as connection:
        stored = await look.thumbnail(connection, file_id)
    return await _picture(request, deps, stored, "image/jpeg")


async def _picture(request: Request, deps: Deps, stored: str, media_type: str) -> Response:
    """Reprocessed, the same address may show another one; nobody but the one who asked may keep it."""
    file = await storage_of(deps.settings).open(deps.database, stored)
    if file is None:
        raise NoSuchPageError
    headers = {"Cache-Control": "private, no-cache", "Content-Security-Policy": LOCKED}
    return answer_file(request, file, media_type, headers)
