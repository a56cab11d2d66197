"""A house in use: every feature with something in it, and the address of every page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.db.connection import Database
from mediamill.intake.jobs import intake_kinds
from mediamill.libraries.trash import remove_library
from mediamill.settings import Settings
from tests.api.serving import SECRET, Served, serve
from tests.conftest import fresh_url, open_database
from tests.intake.played import Ground as Desk
from tests.ui.busy import fill
from tests.ui.filming import fill_videos
from tests.ui.papering import FIELDS, fill_project
from tests.ui.picturing import many_rows, picture_library
from tests.ui.talking import Talking, fill_family
from tests.videos.played import Ground

PAGES = {
    "dashboard": "/",
    "jobs": "/jobs",
    "jobs-none": "/jobs?owner=nobody",
    "job": "/jobs/13",
    "job-running": "/jobs/4481",
    "dead-letter": "/dead",
    "dead-none": "/dead?owner=nobody",
    "pools": "/pools",
    "pool-default": "/pools/default",
    "storage": "/storage",
    "settings": "/settings",
    "access": "/access",
    "audit": "/audit",
    "workers": "/workers",
    "videos": "/videos",
    "videos-trash": "/videos?trash=1",
    "video-ready": "/videos/{ready}",
    "video-failed": "/videos/{failed}",
    "libraries": "/libraries",
    "grid": "/libraries/{slug}",
    "asset-video": "/assets/{film}",
    "trash": "/trash",
    "search-newest": "/search",
    "search-found": "/search?q=harbour",
    "projects": "/projects",
    "project": "/projects/invoices",
    "review": "/projects/invoices/files/{invoice}",
    "bots": "/bots",
    "bot": "/bots/anna",
    "group": "/bots/anna/whatsapp/family@g.us",
    "docs": "/docs",
    "sorry": "/videos/there-is-no-such-video",
}


@dataclass(frozen=True, slots=True)
class House:
    """A server, and its pages by name."""

    served: Served
    pages: dict[str, str]


def serve_all(database: Database, data: Path, **settings: Any) -> AbstractAsyncContextManager[Served]:
    """A server with every kind of job that pages show."""
    kinds = intake_kinds(Settings.model_validate({"data": data}))
    return serve(database, data, kinds, pages=True, ingest_seconds=0.05, **settings)


@asynccontextmanager
async def open_house(server_url: str, folder: Path, **settings: Any) -> AsyncIterator[House]:
    """All of it, for as long as the block lasts."""
    async with (
        fresh_url(server_url) as url,
        open_database(url) as database,
        serve_all(database, folder / "data", **settings) as served,
    ):
        served.client.headers["Authorization"] = f"Bearer {SECRET}"  # for a house that asks who comes
        keeping = asyncio.create_task(served.keeper.run())
        try:
            places = await _furnish(served, folder)
            yield House(served, {name: path.format(**places) for name, path in PAGES.items()})
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def _furnish(served: Served, folder: Path) -> dict[str, Any]:
    data = served.app.state.deps.settings.data_folder
    await served.run(
        "select setval(pg_get_serial_sequence('jobs', 'id'), 100)"
    )  # room for the jobs of `fill`
    talking = Talking(served)
    await talking.create("anna", providers={"chat": {}, "whatsapp": {}})
    await fill_family(talking)
    videos = await fill_videos(Ground.on(served.database, data))
    library = await picture_library(served, folder / "photos", pictures=24)
    gone = await many_rows(served, folder / "gone", 30, name="Gone")
    async with served.database.transaction() as connection:
        await remove_library(connection, gone)
    desk = Desk.on(served.database, data)
    await desk.project(fields=FIELDS)
    files = await fill_project(desk)
    await fill(served.database, pools=False)
    return {
        "ready": videos["ready"],
        "failed": videos["failed"],
        "slug": library["slug"],
        "film": library["film"],
        "invoice": files["invoice"],
    }
