"""The pages: rendered here, complete without JavaScript, kept live by htmx and Server-Sent Events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from mediamill.conversations.keeper import BotKeeper
from mediamill.db.connection import Database
from mediamill.dispatch.choose import Dispatch
from mediamill.engine.rules import Engine
from mediamill.settings import Settings
from mediamill.staging.usage import UsageDesk
from mediamill.ui.access_page import add_access_pages
from mediamill.ui.account_page import add_account_page
from mediamill.ui.asset_page import add_asset_page
from mediamill.ui.audit_page import add_audit_page
from mediamill.ui.bots import add_bot_pages
from mediamill.ui.chat import add_chat_pages
from mediamill.ui.dead import add_dead_page
from mediamill.ui.docs import add_docs_page
from mediamill.ui.figures import FiguresDesk
from mediamill.ui.grid import add_grid_page
from mediamill.ui.jobs import add_job_pages
from mediamill.ui.libraries import add_library_pages
from mediamill.ui.library_desk import LibraryDesk
from mediamill.ui.pools import add_pool_pages
from mediamill.ui.projects import add_project_pages
from mediamill.ui.rendering import Renderer
from mediamill.ui.search_page import add_search_page
from mediamill.ui.settings_page import add_settings_page
from mediamill.ui.static_files import StaticFiles
from mediamill.ui.storage_page import add_storage_page
from mediamill.ui.trash_page import add_trash_page
from mediamill.ui.videos import add_video_pages
from mediamill.ui.workers import add_worker_page


def add_pages(
    server: FastAPI, database: Database, engine: Engine, settings: Settings, keeper: BotKeeper
) -> None:
    """All pages and what they load, onto the server; its guard stands before them too."""
    desk: UsageDesk = server.state.usage_desk
    dispatch: Dispatch = server.state.deps.dispatch
    pages = create_pages(database, engine, settings, keeper, desk, dispatch.facts)
    server.router.routes.extend(pages.routes)  # as in create_api
    server.add_exception_handler(HTTPException, _kindly(server.exception_handlers[HTTPException]))
    server.mount("/static", StaticFiles(), name="static")


SORRY = "that did not work"
SAID = {404: "there is no page at this address", 405: "this address takes what a form sends; it is no page"}


def _kindly(for_programs: Callable[[Request, Exception], Any]) -> Callable[[Request, Exception], Any]:
    """What no route answers: a person reads a page that says so."""

    async def answer(request: Request, error: Exception) -> Response:
        problem: Response = await for_programs(request, error)
        if not request.app.state.wants_page(request.scope):
            return problem
        page = Renderer().sorry(problem.status_code, SAID.get(problem.status_code, SORRY))
        if "allow" in problem.headers:
            page.headers["Allow"] = problem.headers["allow"]
        return page

    return answer


def create_pages(
    database: Database,
    engine: Engine,
    settings: Settings,
    keeper: BotKeeper,
    usage_desk: UsageDesk,
    redis: Callable[[], dict[str, Any] | None],
) -> APIRouter:
    """The routes of the pages; `redis` tells how Redis is."""
    renderer = Renderer()
    pages = _Pages(FiguresDesk(database, settings.data_folder, redis), renderer)
    router = APIRouter(include_in_schema=False, route_class=renderer.route_class())
    router.get("/")(pages.first)
    router.get("/live")(pages.live)
    add_job_pages(router, renderer, database, engine)
    add_dead_page(router, renderer, database, engine)
    add_pool_pages(router, renderer, database)
    add_storage_page(router, renderer, database, settings, usage_desk)
    add_settings_page(router, renderer, database, settings)
    add_bot_pages(router, renderer, database, keeper, settings)
    add_chat_pages(router, renderer, database, engine, keeper)
    add_video_pages(router, renderer, database, engine, settings)
    desk = LibraryDesk(database)
    add_library_pages(router, renderer, database, engine, desk)
    add_grid_page(router, renderer, database, desk)
    add_asset_page(router, renderer, database)
    add_trash_page(router, renderer, database, desk, settings)
    add_project_pages(router, renderer, database, engine, settings)
    add_search_page(router, renderer, database, settings)
    add_worker_page(router, renderer, database)
    add_access_pages(router, renderer, database)
    add_account_page(router, renderer, database, settings)
    add_audit_page(router, renderer, database, settings)
    add_docs_page(router, renderer)
    return router


class _Pages:
    def __init__(self, desk: FiguresDesk, renderer: Renderer) -> None:
        self._desk, self._render = desk, renderer.page

    async def first(self) -> HTMLResponse:
        """The first page: depths, throughput, workers, jobs, dead letter."""
        figures = await self._desk.figures()
        return self._render("first.html", 200 if figures.database_ok else 503, figures=figures)

    async def live(self) -> Response:
        """The parts of the first page that change, each to be put in its place."""
        return self._render("live.html", figures=await self._desk.news())
