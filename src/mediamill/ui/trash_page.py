"""The trash: videos and libraries that can still be restored, and what is being erased, with how much is left of it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Database
from mediamill.libraries.erase import mark_for_erasing
from mediamill.settings import Settings
from mediamill.storage.choose import storage_of
from mediamill.ui.library_desk import LibraryDesk
from mediamill.ui.rendering import Renderer
from mediamill.ui.videos import PAGE_VIDEOS, Filter
from mediamill.videos.look import list_videos
from mediamill.videos.trash import empty_trash


def add_trash_page(
    router: APIRouter, renderer: Renderer, database: Database, desk: LibraryDesk, settings: Settings
) -> None:
    """Its routes."""
    page = _TrashPage(renderer, database, desk, settings)
    router.get("/trash")(page.show)
    router.post("/trash/empty")(page.empty)
    router.post("/trash/{slug}/erase")(page.erase)


class _TrashPage:
    def __init__(self, renderer: Renderer, database: Database, desk: LibraryDesk, settings: Settings) -> None:
        self._renderer, self._database, self._desk = renderer, database, desk
        self._settings = settings

    async def show(self, part: str | None = None) -> HTMLResponse:
        """All of it; with `part` only the list."""
        found = await self._desk.list(trash=True)
        kept = [library for library in found if library["erasing_at"] is None]
        async with self._database.connection() as connection:
            videos = await list_videos(connection, trash=True, amount=PAGE_VIDEOS + 1)
        return self._renderer.page(
            "trash/live.html" if part else "trash/all.html",
            libraries=found,
            kept=kept,
            videos=videos[:PAGE_VIDEOS],
            has_more=len(videos) > PAGE_VIDEOS,
            wanted=Filter(trash=True),
        )

    async def empty(self) -> Response:
        """Erase all of it: videos at once, libraries by a server in the background."""
        await empty_trash(self._database, storage_of(self._settings))
        return await self._erase(None)

    async def erase(self, slug: str) -> Response:
        """Erase one library."""
        return await self._erase(slug)

    async def _erase(self, slug: str | None) -> Response:
        async with self._database.transaction() as connection:
            await mark_for_erasing(connection, slug)
        self._desk.forget()
        return RedirectResponse("/trash", 303)
