"""`mediamill up`: server, embedded database and local workers in one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import math
import shlex
import shutil
import signal
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from mediamill.cli.open import make_link, show
from mediamill.cli.options import examples
from mediamill.cli.server_client import server_url
from mediamill.cli.terminal import say
from mediamill.errors import ConflictError
from mediamill.local_key import DATA_FOLDER
from mediamill.logs import is_json, name_process, tell
from mediamill.signals import STOP, on_signals

if TYPE_CHECKING:
    from mediamill.api.server import Server
    from mediamill.app import App
    from mediamill.conversations.keeper import BotKeeper
    from mediamill.settings import Settings
    from mediamill.worker.query_vectors import QueryVectors
    from mediamill.worker.supervisor import Supervisor

log = logging.getLogger("mediamill.cli")

EXAMPLES = examples(
    "mediamill up", "mediamill up --no-open", "mediamill up --workers 4", "MEDIAMILL_PORT=9000 mediamill up"
)


class PortTakenError(ConflictError):
    """Another program listens on the port."""

    code = "port_taken"


def up(
    workers: Annotated[
        int | None,
        typer.Option(min=0, max=64, help="Local worker processes. Default: MEDIAMILL_WORKER_PROCESSES."),
    ] = None,
    open_pages: Annotated[
        bool,
        typer.Option(
            "--open/--no-open",
            help="Open the pages in a browser, if this is a terminal with a display and not an SSH session.",
        ),
    ] = True,
) -> None:
    """Start everything here: the page and the API, the embedded database, and workers.

    Ctrl-C once: what runs is finished. Twice: everything stops at once, unfinished jobs wait for the next start.
    """
    import uvloop

    from mediamill.cli.tracing import traced
    from mediamill.engine.flight_log import install
    from mediamill.files import keep_private
    from mediamill.settings import Settings

    settings = Settings()
    if workers is not None:
        settings = settings.model_copy(update={"worker_processes": workers})
    if _already_up(settings):
        return
    install(settings.log_level, form=settings.log_format)
    name_process(process="server")
    keep_private(settings.data_folder)
    with traced("mediamill-server", settings.traces_url):
        uvloop.run(_up(settings, open_pages))


async def _up(settings: Settings, open_pages: bool) -> None:
    from mediamill.app import make_keeper, make_run_keeper, open_app, until_there
    from mediamill.engine.recovery.sweep import note_server_start, recover_at_start
    from mediamill.libraries.retag import note_models
    from mediamill.worker.query_vectors import QueryVectors
    from mediamill.worker.supervisor import Supervisor

    with _bind(settings) as door:
        settings = settings.model_copy(
            update={"port": door.getsockname()[1]}
        )  # any port may have been asked for
        async with open_app(settings, name="mediamill server", wait_seconds=math.inf, keep=True) as app:
            await until_there(lambda: note_server_start(app.database))
            await until_there(lambda: recover_at_start(app.database, app.engine))
            await until_there(lambda: note_models(app.database, settings))
            keeper = make_keeper(app)
            vectors = QueryVectors(settings.data_folder)
            await vectors.start()
            server = _make_server(app, keeper, vectors)
            supervisor = Supervisor(
                settings.worker_processes,
                more=f"{settings.worker_environment},{settings.sandbox_environment}",
            )
            tasks = [
                asyncio.create_task(work)
                for work in (*_background(app), keeper.run(), make_run_keeper(app).run())
            ]
            serving = asyncio.create_task(server.serve([door]))
            try:
                while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.02)
                if not serving.done():
                    supervisor.start()
                    _greet(server, settings, open_pages)
                    await _until_told_to_stop(supervisor, [serving, *tasks])
            finally:
                await supervisor.stop()
                server.should_exit = True
                await asyncio.gather(serving, return_exceptions=True)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await vectors.close()
    if is_json():
        tell(log, "server_stopped")
    else:
        say("mediamill has stopped; nothing is lost, `mediamill up` goes on where it was.")


def _background(app: App) -> list[Coroutine[Any, Any, None]]:
    """What the server does besides answering."""
    from mediamill.access.audit import sweep_access_forever
    from mediamill.agents.pi_forget import forget_threads_forever
    from mediamill.app import search_fillers
    from mediamill.engine.alert_sender import send_alerts_forever
    from mediamill.engine.deliver import deliver_forever
    from mediamill.engine.depths import report_depths_forever
    from mediamill.engine.recovery.served import note_served_forever
    from mediamill.engine.recovery.sweep import sweep_forever
    from mediamill.intake.sweep import sweep_intake_forever
    from mediamill.intake.watch import watch_folders_forever
    from mediamill.libraries.counts import count_forever
    from mediamill.libraries.erase import erase_forever
    from mediamill.libraries.feed import feed_forever
    from mediamill.libraries.rescan import rescan_forever
    from mediamill.libraries.retag import retag_forever
    from mediamill.libraries.sweep import sweep_libraries_forever
    from mediamill.search.backfill import fill_forever
    from mediamill.search.feed import feed_forever as embed_forever
    from mediamill.staging.bucket_sweep import sweep_bucket_forever
    from mediamill.staging.sweep import sweep_staging_forever
    from mediamill.storage.bucket import BucketStorage
    from mediamill.storage.choose import storage_of
    from mediamill.videos.sweep import sweep_videos_forever
    from mediamill.videos.upload import Uploads
    from mediamill.videos.upload_sweep import finish_uploads_forever

    settings = app.settings
    storage = storage_of(settings)
    beside = (
        [sweep_bucket_forever(app.database, storage, settings)] if isinstance(storage, BucketStorage) else []
    )
    return [
        *beside,
        app.dispatch.run(app.database),
        note_served_forever(app.database),
        report_depths_forever(app.database),
        sweep_forever(app.database, app.engine),
        deliver_forever(app.database, app.engine),
        send_alerts_forever(app.database, settings),
        forget_threads_forever(settings),
        finish_uploads_forever(
            Uploads(app.database, app.enqueuer, settings), every_seconds=settings.janitor_seconds
        ),
        sweep_staging_forever(
            app.database,
            storage,
            keep_seconds=settings.staged_keep_hours * 3600,
            failed_keep_seconds=settings.failed_media_keep_hours * 3600,
            every_seconds=settings.janitor_seconds,
        ),
        sweep_videos_forever(app.database, settings),
        feed_forever(app.database, app.enqueuer, settings),
        rescan_forever(app.database, app.enqueuer),
        retag_forever(app.database),
        erase_forever(app.database),
        count_forever(app.database),
        sweep_libraries_forever(app.database, app.engine, settings),
        watch_folders_forever(app.database, app.enqueuer, settings),
        sweep_intake_forever(app.database, settings),
        sweep_access_forever(app.database, settings.audit_keep_days, settings.janitor_seconds),
        embed_forever(app.database, app.enqueuer, settings),
        fill_forever(app.database, settings.janitor_seconds, search_fillers()),
    ]


def _bind(settings: Settings) -> socket.socket:
    """The port, before anything is started: two that start at once do not get it both."""
    door = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((settings.host, settings.port))
        return door
    except OSError as error:
        door.close()
        if error.errno == errno.EADDRINUSE:
            raise _port_taken(settings) from error
        raise PortTakenError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}",
            fix="set MEDIAMILL_HOST and MEDIAMILL_PORT to an address of this machine and a free port",
        ) from error


def _make_server(app: App, keeper: BotKeeper, vectors: QueryVectors) -> Server:
    from mediamill.api.server import Server, create_api
    from mediamill.providers.telegram.door import add_webhook_door
    from mediamill.providers.whatsapp.door import add_bridge_door
    from mediamill.ui.pages import add_pages

    api = create_api(
        app.database, app.engine, app.enqueuer, app.settings, keeper, app.run_watch, app.dispatch
    )
    api.state.query_vectors = vectors
    add_pages(api, app.database, app.engine, app.settings, keeper)
    add_bridge_door(api, keeper, app.settings)
    add_webhook_door(api, keeper)
    server = Server(api, app.settings)
    # All that is loaded now stays as long as the process: looking through it for garbage stopped everybody for 50 ms.
    gc.freeze()
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    return server


async def _until_told_to_stop(supervisor: Supervisor, parts: list[asyncio.Task[None]]) -> None:
    """Or until a part of the server fails: half a server is none."""
    told = asyncio.Event()

    def stop() -> None:
        if told.is_set():
            supervisor.signal(signal.SIGTERM)  # the second time: workers hand their jobs back
        else:
            say("finishing what runs (again to stop at once) …")
        told.set()

    on_signals(STOP, stop)
    waiting = asyncio.create_task(told.wait())
    failing = asyncio.create_task(asyncio.wait(parts, return_when=asyncio.FIRST_EXCEPTION))
    await asyncio.wait({waiting, failing}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    failing.cancel()
    for part in parts:
        if part.done():
            part.result()


def _greet(server: Server, settings: Settings, open_pages: bool) -> None:
    database = "the database of MEDIAMILL_DATABASE_URL" if settings.database_url else "embedded database"
    count = settings.worker_processes
    if is_json():
        tell(log, "server_up", url=server.url, workers=count)
        return
    say(f"mediamill is up: {server.url}")
    if sys.stdout.isatty():  # what goes to a file or a journal may be read by others
        link = make_link(settings)
        say(f"  open it, once: {link}")
        if open_pages:  # a browser in the terminal keeps its caller waiting
            Thread(target=show, args=(link, settings), daemon=True).start()
    else:
        say("  open it: run `mediamill open` as the same user")
    say(
        f"  data in {settings.data_folder}, {database}, {count} worker{'' if count == 1 else 's'}; Ctrl-C stops it"
    )
    if names := _to_export(settings):
        say(f"  in another terminal: export {names}")
    say("  try it: mediamill open (the pages), mediamill chat, mediamill process FILE")


def _to_export(settings: Settings) -> str:
    """What a shell must know to find this program and this server."""
    program, names = Path(sys.executable).with_name("mediamill"), []
    found = shutil.which("mediamill")
    if program.exists() and not (found and program.samefile(found)):
        names.append(f'PATH={shlex.quote(str(program.parent))}:"$PATH"')
    if settings.data_folder != DATA_FOLDER.expanduser():
        names.append(f"MEDIAMILL_DATA={shlex.quote(str(settings.data_folder))}")
    if settings.port != type(settings).model_fields["port"].default:
        names.append(f"MEDIAMILL_PORT={settings.port}")
    return " ".join(names)


def _already_up(settings: Settings) -> bool:
    """Somebody listens already: if it is a mediamill, say where; if not, say what to do."""
    import httpx

    if settings.port == 0:
        return False
    url = server_url(settings)
    host = urlsplit(url).hostname or ""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.settimeout(2)
        if probe.connect_ex((host, settings.port)) != 0:
            return False
    with contextlib.suppress(httpx.HTTPError, ValueError, AttributeError):
        if "pending_jobs" in httpx.get(f"{url}/health", timeout=3, trust_env=False).json():
            say(f"mediamill is up already: {url}")
            return True
    raise _port_taken(settings)


def _port_taken(settings: Settings) -> PortTakenError:
    return PortTakenError(
        f"port {settings.port} is used by another program",
        fix="set MEDIAMILL_PORT to a free port and try again",
    )
