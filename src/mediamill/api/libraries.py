"""Libraries: add, list, show, edit, scan, pause; to the trash and back. Their folders are only ever read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from mediamill.api.deps import Deps, Wired
from mediamill.api.library_shapes import (
    AssetsOut,
    AssetStatus,
    AssetType,
    LibrariesOut,
    LibraryEdit,
    LibraryIn,
    LibraryOut,
    RemadeOut,
    RetriedAssetsOut,
    TaggerIn,
    TimelineOut,
)
from mediamill.db.connection import Connection
from mediamill.libraries import add, assets, edit, look, remake, retry, trash
from mediamill.libraries.model import SLUG_CHARACTERS
from mediamill.libraries.retag import set_tagger
from mediamill.libraries.scan_job import request_scan
from mediamill.libraries.timeline import timeline

router = APIRouter(prefix="/api/libraries", tags=["libraries"])

Slug = Annotated[
    str,
    Path(min_length=1, max_length=SLUG_CHARACTERS, description="The library's slug.", examples=["photos"]),
]
Amount = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=10_000, description="The `next` or `previous` of a page.")]
Month = Annotated[str | None, Query(pattern=r"^\d{4}-\d{2}$", description="Only those of this month (UTC).")]


@router.get("", response_model=LibrariesOut)
async def list_libraries(deps: Wired) -> dict[str, Any]:
    """All of them, by name, each with its counts. Those in the trash are at /api/trash."""
    async with deps.database.connection() as connection:
        return {"libraries": await look.list_libraries(connection)}


@router.post("", status_code=201, response_model=LibraryOut)
async def add_library(deps: Wired, wish: LibraryIn) -> dict[str, Any]:
    """A folder of the server's machine becomes a library, and is scanned."""
    async with deps.database.transaction() as connection:
        slug = await add.add_library(connection, **wish.model_dump(exclude={"scan"}))
        if wish.scan:
            await request_scan(connection, deps.enqueuer, slug)
        return await look.show_library(connection, slug)


@router.get("/{slug}", response_model=LibraryOut)
async def show_library(deps: Wired, slug: Slug) -> dict[str, Any]:
    """One of them."""
    async with deps.database.connection() as connection:
        return await look.show_library(connection, slug)


@router.patch("/{slug}", response_model=LibraryOut)
async def edit_library(deps: Wired, slug: Slug, facts: LibraryEdit) -> dict[str, Any]:
    """Another name, folder, or way of working; it holds for what is done from now on."""
    async with deps.database.transaction() as connection:
        await edit.edit_library(connection, slug, **facts.model_dump())
        return await look.show_library(connection, slug)


@router.delete("/{slug}", response_model=LibraryOut)
async def remove_library(deps: Wired, slug: Slug) -> dict[str, Any]:
    """To the trash: everything of it is hidden at once, nothing is deleted, and all can be restored."""
    return await _move(deps, slug, trash.remove_library)


@router.post("/{slug}/restore", response_model=LibraryOut)
async def restore_library(deps: Wired, slug: Slug) -> dict[str, Any]:
    """Back from the trash, with everything that was in it."""
    return await _move(deps, slug, trash.restore_library)


@router.post("/{slug}/scan", status_code=202, response_model=LibraryOut)
async def scan_library(deps: Wired, slug: Slug) -> dict[str, Any]:
    """Look for what is new, changed or gone. One that is under way already goes on."""
    async with deps.database.transaction() as connection:
        await request_scan(connection, deps.enqueuer, slug)
        return await look.show_library(connection, slug)


@router.post("/{slug}/pause", response_model=LibraryOut)
async def pause_library(deps: Wired, slug: Slug) -> dict[str, Any]:
    """What runs is finished; nothing else begins."""
    return await _move(deps, slug, edit.pause_library)


@router.post("/{slug}/resume", response_model=LibraryOut)
async def resume_library(deps: Wired, slug: Slug) -> dict[str, Any]:
    """It goes on where it was."""
    return await _move(deps, slug, edit.resume_library)


@router.post("/{slug}/tagger", response_model=LibraryOut)
async def choose_tagger(deps: Wired, slug: Slug, wish: TaggerIn) -> dict[str, Any]:
    """Who tags it from now on. What others tagged is tagged again, from the previews that are there."""
    async with deps.database.transaction() as connection:
        await set_tagger(connection, deps.settings, slug, wish.engine, wish.model)
        return await look.show_library(connection, slug)


@router.post("/{slug}/retry", response_model=RetriedAssetsOut)
async def retry_failed(deps: Wired, slug: Slug) -> dict[str, Any]:
    """What failed is tried again, 5,000 at a time; ask again as long as there is `more`."""
    async with deps.database.transaction() as connection:
        retried = await retry.retry_failed(connection, slug)
    return {"retried": retried, "more": retried == retry.RETRIED_AT_ONCE}


@router.post("/{slug}/remake", response_model=RemadeOut)
async def remake_assets(
    deps: Wired,
    slug: Slug,
    what: Annotated[remake.What, Query(description="`raw`: raw photos.")] = "all",
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="Go on after this id.")] = 0,
) -> dict[str, Any]:
    """What is there is made again from its files, by the settings of now. Ask again with `after` until that is null."""
    async with deps.database.transaction() as connection:
        remade, end = await remake.remake_some(connection, slug, what, after)
    return {"remade": remade, "after": end}


@router.get("/{slug}/assets", response_model=AssetsOut)
async def list_assets(
    deps: Wired,
    slug: Slug,
    type: AssetType | None = None,
    status: AssetStatus | None = None,
    order: assets.Order = "newest",
    after: Cursor = None,
    before: Cursor = None,
    month: Month = None,
    vanished: Annotated[bool, Query(description="Those that the last scan did not find.")] = False,
    amount: Amount = 100,
) -> dict[str, Any]:
    """A page of a library, as quick at its end as at its beginning. By path, a page may be short or even empty:
    as long as there is a `next`, there may be more."""
    async with deps.database.connection() as connection:
        return await assets.list_assets(
            connection,
            slug,
            type=type,
            status=status,
            order=order,
            after=after,
            before=before,
            month=month,
            vanished=vanished,
            amount=amount,
        )


@router.get("/{slug}/timeline", response_model=TimelineOut)
async def show_timeline(deps: Wired, slug: Slug) -> dict[str, Any]:
    """How many assets are of which month; of a large library it may be a minute old."""
    async with deps.database.transaction() as connection:
        return {"months": await timeline(connection, slug)}


async def _move(deps: Deps, slug: str, verb: Callable[[Connection, str], Awaitable[None]]) -> dict[str, Any]:
    """What needs nothing but the library; as it is then, be it in the trash."""
    async with deps.database.transaction() as connection:
        await verb(connection, slug)
        return await look.show_library(connection, slug, trash=True)
