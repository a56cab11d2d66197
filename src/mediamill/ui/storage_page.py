"""The page of storage: what lies where, the disk, the quota and its use, what the sweeps will delete and when."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.conversations import configuration
from mediamill.db.connection import Database
from mediamill.engine.watch import database_facts
from mediamill.errors import MediamillError
from mediamill.libraries.look import list_libraries
from mediamill.settings import Settings
from mediamill.staging.quota import GIGABYTE, limit_bytes
from mediamill.staging.usage import FOLDERS, UsageDesk
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer, status_of


def add_storage_page(
    router: APIRouter, renderer: Renderer, database: Database, settings: Settings, desk: UsageDesk
) -> None:
    """Its routes."""
    page = _StoragePage(renderer, database, settings, desk)
    router.get("/storage")(page.show)
    router.post("/storage/quota")(page.set_quota)


class _StoragePage:
    def __init__(self, renderer: Renderer, database: Database, settings: Settings, desk: UsageDesk) -> None:
        self._renderer, self._database, self._settings, self._desk = renderer, database, settings, desk

    async def show(self, done: str = "", part: str | None = None) -> HTMLResponse:
        """All of it; with `part` only what changes."""
        return await self._page("storage/figures.html" if part else "storage/all.html", done=done)

    async def set_quota(self, request: Request) -> Response:
        """Another quota, or the default again; a bad one is refused."""
        form = await read_form(request)
        typed = form.get("quota", [""])[0].strip()
        value = None if "reset" in form else _number(typed)
        try:
            async with self._database.transaction() as connection:
                await configuration.set_value(connection, configuration.QUOTA, value)
        except MediamillError as error:
            return await self._page("storage/all.html", status_of(error), fault=error.message, typed=typed)
        return RedirectResponse("/storage?done=saved", 303)

    async def _page(self, template: str, status_code: int = 200, **more: Any) -> HTMLResponse:
        usage = await self._desk.usage()
        async with self._database.connection() as connection:
            database = await database_facts(connection)
            quota = await configuration.quota_gb(connection)
            trash = await list_libraries(connection, trash=True)
        given = {"done": "", "fault": None, "typed": None, **more}
        return self._renderer.page(
            template,
            status_code,
            usage=usage,
            database=database,
            quota_gb=quota,
            limit=limit_bytes(quota),
            quota_bytes=int(quota * GIGABYTE),
            used=usage.waiting_bytes,
            words=FOLDERS,
            trash=len(trash),
            settings=self._settings,
            **given,
        )


def _number(text: str) -> float | str:
    """As the verb takes it; a text that is no number is refused there."""
    try:
        return float(text)
    except ValueError:
        return text
