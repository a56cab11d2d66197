"""The HTTP server: routes, errors and the guard put together, and a uvicorn that ends live streams when it stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import uvicorn
from fastapi import FastAPI

from mediamill import __version__
from mediamill.api import (
    assets,
    audit,
    bots,
    chat,
    configuration,
    conversations,
    dead,
    events,
    flight_dumps,
    health,
    jobs,
    libraries,
    links,
    login,
    login_passkey,
    login_sign_on,
    messages,
    metrics,
    owners,
    pools,
    project_files,
    projects,
    proposals,
    runs,
    search,
    senders,
    storage,
    tokens,
    trash,
    uploads,
    users,
    video_files,
    videos,
    worker,
    worker_files,
    worker_sessions,
    workers,
)
from mediamill.api.claim_desk import ClaimDesk
from mediamill.api.connection import Connection
from mediamill.api.deps import Deps
from mediamill.api.errors import install_errors
from mediamill.api.event_hub import EventHub
from mediamill.api.guard import Guard, check_secret
from mediamill.api.inbox import Inbox
from mediamill.api.openapi import install_openapi
from mediamill.api.plain_page import wants_page
from mediamill.api.requests import CountRequests, Requests
from mediamill.api.scopes import check_declared
from mediamill.api.strangers import Strangers
from mediamill.api.tracing import Tracing
from mediamill.api.wakes import WakeHub
from mediamill.api.welcome import Streams
from mediamill.conversations.keeper import BotKeeper
from mediamill.db.connection import Database
from mediamill.dispatch.choose import Dispatch
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.rules import Engine
from mediamill.inputs.look import RunWatch
from mediamill.settings import Settings
from mediamill.staging.usage import UsageDesk
from mediamill.storage.choose import storage_of
from mediamill.storage.count import BucketCounter
from mediamill.storage.pulse import Pulse
from mediamill.videos.upload import Uploads

ROUTERS = (
    health.router,
    metrics.router,
    jobs.router,
    dead.router,
    pools.router,
    workers.router,
    owners.router,
    bots.router,
    senders.router,
    conversations.router,
    chat.router,
    configuration.router,
    messages.router,
    runs.router,
    uploads.router,
    videos.router,
    video_files.router,
    libraries.router,
    assets.router,
    trash.router,
    projects.router,
    project_files.router,
    proposals.router,
    search.router,
    storage.router,
    worker.door,
    worker.keyed,
    worker_sessions.router,
    worker_files.router,
    flight_dumps.router,
    flight_dumps.door,
    events.router,
    users.router,
    tokens.router,
    audit.router,
    login.router,
    login_passkey.router,
    login_sign_on.router,
    links.router,
)
LAST_ANSWERS_SECONDS = 5
FRAME_BYTES = 1024**2  # of a WebSocket; a longer one ends the connection
PING_SECONDS = 20.0  # a WebSocket's other end that does not answer for so long is gone


def create_api(
    database: Database,
    engine: Engine,
    enqueuer: Enqueuer,
    settings: Settings,
    keeper: BotKeeper,
    run_watch: RunWatch,
    dispatch: Dispatch | None = None,
) -> FastAPI:
    """The application; other doors may add their routes to it, and are guarded with it."""
    check_secret(settings)
    server = FastAPI(
        title="mediamill",
        version=__version__,
        openapi_url=None,  # install_openapi gives it, and ui the page of it: FastAPI's fetch scripts from elsewhere
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        lifespan=_lifespan,
    )
    dispatch = dispatch or Dispatch()
    server.state.deps = Deps(
        database, engine, enqueuer, settings, keeper, run_watch, dispatch, Pulse(storage_of(settings))
    )
    server.state.event_hub = EventHub(database, dispatch)
    server.state.claim_desk = ClaimDesk(server.state.deps)
    server.state.wake_hub = WakeHub(database.url)
    server.state.inbox = Inbox(settings)
    bucket = BucketCounter(database, storage_of(settings))
    server.state.usage_desk = UsageDesk(settings.data_folder, bucket)
    server.state.wants_page = wants_page
    server.state.query_vectors = None  # a process that has models brings them
    server.state.links = links.Links(settings)
    server.state.streams = Streams(settings.streams_per_caller)
    server.state.login_service = login.LoginService(database, settings)
    server.state.upload_desk = uploads.UploadDesk(Uploads(database, enqueuer, settings))
    install_errors(server)
    for router in ROUTERS:
        server.router.routes.extend(router.routes)  # include_router would analyse every route a second time
    install_openapi(server)
    server.add_middleware(Tracing)
    server.add_middleware(Guard, settings=settings, database=database)
    server.state.requests = Requests()
    server.add_middleware(CountRequests, requests=server.state.requests)
    return server


@asynccontextmanager
async def _lifespan(server: FastAPI) -> AsyncIterator[None]:
    await asyncio.to_thread(server.state.inbox.spool.delete_leftovers)
    await server.state.deps.run_watch.start()
    yield
    await server.state.deps.run_watch.close()
    server.state.event_hub.close()
    await server.state.wake_hub.close()
    server.state.claim_desk.close()


class Server(uvicorn.Server):
    """Uvicorn waits for open answers when it stops; a live stream never ends by itself, so it is told to first."""

    def __init__(self, server: FastAPI, settings: Settings) -> None:
        check_declared(server)
        self._hub: EventHub = server.state.event_hub
        self._wake_hub: WakeHub = server.state.wake_hub
        self._run_watch: RunWatch = server.state.deps.run_watch
        super().__init__(
            uvicorn.Config(
                server,
                host=settings.host,
                port=settings.port,
                http=cast(type[asyncio.Protocol], partial(Connection, strangers=Strangers())),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(settings.trusted_proxies),
                forwarded_allow_ips=settings.trusted_proxies or None,
                timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
                ws="websockets-sansio",
                ws_max_size=FRAME_BYTES,
                ws_ping_interval=PING_SECONDS,
                ws_ping_timeout=PING_SECONDS,
                ws_per_message_deflate=False,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the rest."""
        self._hub.close()
        self._wake_hub.end_streams()
        self._run_watch.end_streams()
        await super().shutdown(sockets)

    @property
    def url(self) -> str:
        """Where it listens, once it does; with the real port if any port was asked for."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
