"""The trash of libraries: what can still be restored, and what is being erased, with how much is left of it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Database
from mediamill.libraries.erase import mark_for_erasing
from mediamill.ui.library_desk import LibraryDesk
from mediamill.ui.rendering import Renderer


def add_trash_page(router: APIRouter, renderer: Renderer, database: Database, desk: LibraryDesk) -> None:
    """Its routes."""
    page = _TrashPage(renderer, database, desk)
    router.get("/trash")(page.show)
    router.post("/trash/empty")(page.empty)
    router.post("/trash/{slug}/erase")(page.erase)


class _TrashPage:
    def __init__(self, renderer: Renderer, database: Database, desk: LibraryDesk) -> None:
        self._renderer, self._database, self._desk = renderer, database, desk

    async def show(self, part: str | None = None) -> HTMLResponse:
        """All of it; with `part` only the list."""
        found = await self._desk.list(trash=True)
        kept = [library for library in found if library["erasing_at"] is None]
        return self._renderer.page(
            "trash/list.html" if part else "trash/all.html", libraries=found, kept=kept
        )

    async def empty(self) -> Response:
        """Erase all of it; a server does so in the background."""
        return await self._erase(None)

    async def erase(self, slug: str) -> Response:
        """Erase one library."""
        return await self._erase(slug)

    async def _erase(self, slug: str | None) -> Response:
        async with self._database.transaction() as connection:
            await mark_for_erasing(connection, slug)
        self._desk.forget()
        return RedirectResponse("/trash", 303)
