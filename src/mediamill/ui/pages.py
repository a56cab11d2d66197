"""The pages: rendered here, complete without JavaScript, kept live by htmx and Server-Sent Events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI
from fastapi import Path as InPath
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from mediamill.conversations.keeper import BotKeeper
from mediamill.db.connection import LOST, Connection, Database
from mediamill.engine import dead, watch
from mediamill.engine.rules import Engine
from mediamill.errors import ConflictError, MediamillError, NotFoundError
from mediamill.settings import Settings
from mediamill.ui.asset_page import add_asset_page
from mediamill.ui.bots import add_bot_pages
from mediamill.ui.chat import add_chat_pages
from mediamill.ui.docs import Document, add_docs_page
from mediamill.ui.figures import FiguresDesk
from mediamill.ui.grid import add_grid_page
from mediamill.ui.libraries import add_library_pages
from mediamill.ui.library_desk import LibraryDesk
from mediamill.ui.rendering import Renderer
from mediamill.ui.search_page import add_search_page
from mediamill.ui.trash_page import add_trash_page
from mediamill.ui.videos import add_video_pages
from mediamill.ui.workers import add_worker_page

STATIC = Path(__file__).parent / "static"
Id = Annotated[int, InPath(ge=1, le=2**63 - 1)]


def add_pages(
    server: FastAPI, database: Database, engine: Engine, settings: Settings, keeper: BotKeeper
) -> None:
    """All pages and what they load, onto the server; its guard stands before them too."""
    server.include_router(create_pages(database, engine, settings, keeper, server.openapi))
    server.mount("/static", StaticFiles(directory=STATIC), name="static")


def create_pages(
    database: Database,
    engine: Engine,
    settings: Settings,
    keeper: BotKeeper,
    describe: Callable[[], Document],
) -> APIRouter:
    """The routes of the pages; `describe` gives the document of the API."""
    renderer = Renderer()
    pages = _Pages(database, engine, renderer)
    router = APIRouter(include_in_schema=False, route_class=renderer.route_class())
    router.get("/")(pages.first)
    router.get("/live")(pages.live)
    router.get("/jobs/{job_id}")(pages.job)
    router.post("/jobs/{job_id}/retry")(pages.retry)
    router.post("/jobs/{job_id}/purge")(pages.purge)
    add_bot_pages(router, renderer, database, keeper)
    add_chat_pages(router, renderer, database, engine, keeper)
    add_video_pages(router, renderer, database, engine, settings)
    desk = LibraryDesk(database)
    add_library_pages(router, renderer, database, engine, desk)
    add_grid_page(router, renderer, database, desk)
    add_asset_page(router, renderer, database)
    add_trash_page(router, renderer, database, desk)
    add_search_page(router, renderer, database, settings)
    add_worker_page(router, renderer, database)
    add_docs_page(router, renderer, describe)
    return router


class _Pages:
    def __init__(self, database: Database, engine: Engine, renderer: Renderer) -> None:
        self._database, self._engine = database, engine
        self._desk = FiguresDesk(database)
        self._render, self._sorry = renderer.page, renderer.sorry

    async def first(self) -> HTMLResponse:
        """The first page: depths, throughput, workers, jobs, dead letter."""
        figures = await self._desk.figures()
        return self._render("first.html", 200 if figures.database_ok else 503, figures=figures)

    async def live(self) -> Response:
        """The parts of the first page that change, each to be put in its place."""
        figures = await self._desk.figures()
        return self._render("live.html", figures=figures)

    async def job(self, job_id: Id) -> HTMLResponse:
        """One job, wherever it is."""
        try:
            async with self._database.connection() as connection:
                job = await watch.show_job(connection, job_id)
        except NotFoundError as error:
            return self._sorry(404, error.message)
        except LOST:
            return self._sorry(503, "the database is away; this page tries again by itself")
        return self._render("job.html", job=job)

    async def retry(self, job_id: Id) -> Response:
        """Run it again now; back to its page."""
        try:
            async with self._database.transaction() as connection:
                await dead.retry_job(connection, self._engine, job_id)
        except MediamillError as error:
            return self._sorry(409, error.message)
        return RedirectResponse(f"/jobs/{job_id}", 303)

    async def purge(self, job_id: Id) -> Response:
        """Forget a dead job, or one that waits; back to the first page."""
        try:
            async with self._database.transaction() as connection:
                await self._purge(connection, job_id)
        except MediamillError as error:
            return self._sorry(409, error.message)
        return RedirectResponse("/", 303)

    async def _purge(self, connection: Connection, job_id: int) -> None:
        if await dead.purge_dead(connection, [job_id]):
            return
        if not await dead.purge_jobs(connection, self._engine, [job_id]):
            job = await watch.show_job(connection, job_id)
            raise ConflictError(
                f"job {job_id} is {job['state']}; only one that waits or is dead can be purged"
            )
