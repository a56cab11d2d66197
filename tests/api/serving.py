"""A real server on a free port, for as long as a test needs it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mediamill.access.places import is_loopback
from mediamill.api.server import Server, create_api
from mediamill.api.sessions import COOKIE
from mediamill.app import App, make_keeper, make_run_keeper
from mediamill.conversations.jobs import message_kinds
from mediamill.conversations.keeper import BotKeeper
from mediamill.db.connection import Database
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.rules import Engine
from mediamill.inputs.runner import RunKeeper
from mediamill.local_key import local_key, sign_pass
from mediamill.providers.telegram.door import add_webhook_door
from mediamill.providers.whatsapp.door import add_bridge_door
from mediamill.settings import Settings
from mediamill.testing import kinds as scripted
from mediamill.ui.pages import add_pages
from mediamill.videos.jobs import video_kinds

SECRET = "a secret that only the tests know"


@dataclass
class Served:
    """A running server and a client of it."""

    database: Database
    engine: Engine
    app: FastAPI
    server: Server
    url: str
    client: httpx.AsyncClient

    @property
    def keeper(self) -> BotKeeper:
        """Whoever runs bots; it does not run by itself here: tests take its steps, or start `keeper.run()`."""
        keeper: BotKeeper = self.app.state.deps.keeper
        return keeper

    @property
    def runs(self) -> RunKeeper:
        """Whoever works off runs; a new one, which does nothing until its `run()` is started."""
        return make_run_keeper(self.app.state.wired)

    async def run(self, sql: str, *args: Any) -> None:
        async with self.database.connection() as connection:
            await connection.execute(sql, *args)

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def enqueue(self, kind: str = "scripted.run", **more: Any) -> int:
        answer = await self.client.post("/api/jobs", json={"kind": kind, **more})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])


def make_app(
    database: Database, folder: Path, kinds: tuple[JobKind, ...] = (), *, pages: bool = False, **settings: Any
) -> FastAPI:
    """The application as `mediamill up` makes it; on loopback for its owner, unless `login="always"` says otherwise.

    Only with `pages` does it have them: their routes take longer to make than most tests take.
    """
    values = {"data": folder, "port": 0, "admin_secret": SECRET, **settings}
    login = values.pop("login", "auto")
    chosen = Settings.model_validate(values)
    engine = Engine.from_settings(
        chosen, Kinds((*scripted.KINDS, *message_kinds(chosen), *video_kinds(chosen), *kinds))
    )
    wired = App.of(chosen, database, engine)
    keeper = make_keeper(wired)
    app = create_api(database, engine, wired.enqueuer, chosen, keeper, wired.run_watch, wired.dispatch)
    if pages:
        add_pages(app, database, engine, chosen, keeper)
    add_bridge_door(app, keeper, chosen)
    add_webhook_door(app, keeper)
    app.state.wired = wired
    if login == "auto" and is_loopback(chosen.host):
        app.add_middleware(AsOwner, folder=chosen.data_folder)
    return app


class AsOwner:
    """Most tests are not about who asks: requests that show nothing get the pass that the owner's commands show."""

    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self._app, self._folder = app, folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._shows_something(Headers(scope=scope), scope["path"]):
            shown = f"Bearer {sign_pass(local_key(self._folder))}".encode()
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", shown)]}
        await self._app(scope, receive, send)

    def _shows_something(self, headers: Headers, path: str) -> bool:
        worker = path.startswith("/api/worker/") and path != "/api/worker/register"
        shown = any(name in headers for name in ("authorization", "x-admin-secret", "x-forwarded-for"))
        return worker or shown or COOKIE in headers.get("cookie", "")


@asynccontextmanager
async def serve(
    database: Database, folder: Path, kinds: tuple[JobKind, ...] = (), **settings: Any
) -> AsyncIterator[Served]:
    """Serve until the end of the block."""
    door = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # asyncio: no delays by protocol only
    door.bind((settings.get("host", "127.0.0.1"), 0))
    app = make_app(database, folder, kinds, **{"port": door.getsockname()[1], **settings})
    server = Server(app, app.state.deps.settings)
    task = asyncio.create_task(server.serve([door]))
    while not server.started:
        assert not task.done(), task.exception()
        await asyncio.sleep(0.01)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, verify=False) as client:
        yield Served(database, app.state.deps.engine, app, server, server.url, client)
    server.should_exit = True
    await task
    await app.state.deps.keeper.stop_all()
