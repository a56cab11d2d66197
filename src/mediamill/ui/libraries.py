"""The pages of libraries: all of them with their progress, a form for a new one, and the trash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.rules import Engine
from mediamill.errors import MediamillError
from mediamill.libraries.add import add_library
from mediamill.libraries.edit import pause_library, resume_library
from mediamill.libraries.scan_job import request_scan
from mediamill.libraries.trash import remove_library, restore_library
from mediamill.ui.forms import read_form
from mediamill.ui.library_desk import LibraryDesk
from mediamill.ui.rendering import Renderer, status_of

BLANK = {"name": "", "path": "", "scan": True}
Act = Callable[[Connection, str], Awaitable[object]]


def add_library_pages(
    router: APIRouter, renderer: Renderer, database: Database, engine: Engine, desk: LibraryDesk
) -> None:
    """Their routes."""
    pages = _LibraryPages(renderer, database, engine, desk)
    router.get("/libraries")(pages.all)
    router.post("/libraries")(pages.add)
    router.post("/libraries/{slug}/scan")(pages.scan)
    router.post("/libraries/{slug}/pause")(pages.pause)
    router.post("/libraries/{slug}/resume")(pages.resume)
    router.post("/libraries/{slug}/remove")(pages.remove)
    router.post("/libraries/{slug}/restore")(pages.restore)


class _LibraryPages:
    def __init__(self, renderer: Renderer, database: Database, engine: Engine, desk: LibraryDesk) -> None:
        self._renderer, self._database, self._desk = renderer, database, desk
        self._enqueuer = Enqueuer(engine.kinds, engine.payload_limit_bytes)

    async def all(self, part: str | None = None, removed: str = "") -> HTMLResponse:
        """Every library, and a form for a new one; with `part` only the list."""
        return await self._all("libraries/list.html" if part else "libraries/all.html", removed=removed)

    async def add(self, request: Request) -> Response:
        """A new library from the form; a fault is told above the form, with all that was typed still in it."""
        form = await read_form(request)
        given = {name: form.get(name, [""])[0].strip() for name in ("name", "path")}
        try:
            async with self._database.transaction() as connection:
                slug = await add_library(connection, given["name"], given["path"])
                if "scan" in form:
                    await self._request_scan(connection, slug)
        except MediamillError as error:
            fault = f"{error.message}{f' ({error.fix})' if error.fix else ''}"
            typed = {**given, "scan": "scan" in form}
            return await self._all("libraries/all.html", status_of(error), form=typed, fault=fault)
        self._desk.forget()
        return RedirectResponse("/libraries", 303)

    async def scan(self, slug: str) -> Response:
        """Look for what is new, changed or gone."""
        return await self._act(self._request_scan, slug)

    async def pause(self, slug: str) -> Response:
        """Nothing else begins for it."""
        return await self._act(pause_library, slug)

    async def resume(self, slug: str) -> Response:
        """It goes on."""
        return await self._act(resume_library, slug)

    async def remove(self, slug: str) -> Response:
        """To the trash; the page offers the way back."""
        return await self._act(remove_library, slug, f"/libraries?removed={slug}")

    async def restore(self, slug: str) -> Response:
        """Out of the trash."""
        return await self._act(restore_library, slug)

    async def _request_scan(self, connection: Connection, slug: str) -> None:
        await request_scan(connection, self._enqueuer, slug)

    async def _act(self, act: Act, slug: str, then: str = "/libraries") -> Response:
        async with self._database.transaction() as connection:
            await act(connection, slug)
        self._desk.forget()
        return RedirectResponse(then, 303)

    async def _all(
        self,
        template: str,
        status_code: int = 200,
        *,
        form: dict[str, Any] | None = None,
        fault: str | None = None,
        removed: str = "",
    ) -> HTMLResponse:
        gone = [one for one in await self._desk.list(trash=True) if one["slug"] == removed] if removed else []
        return self._renderer.page(
            template,
            status_code,
            libraries=await self._desk.list(),
            form=form or BLANK,
            fault=fault,
            removed=gone[0] if gone else None,
        )
