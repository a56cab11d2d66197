"""`mediamill up`: server, embedded database and local workers in one."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from mediamill.cli.options import examples
from mediamill.cli.terminal import say
from mediamill.errors import ConflictError

if TYPE_CHECKING:
    from mediamill.api.server import Server
    from mediamill.app import App
    from mediamill.settings import Settings

EXAMPLES = examples("mediamill up", "mediamill up --workers 4", "MEDIAMILL_PORT=9000 mediamill up")


class PortTakenError(ConflictError):
    """Another program listens on the port."""

    code = "port_taken"


def up(
    workers: Annotated[
        int | None,
        typer.Option(min=0, max=64, help="Local worker processes. Default: MEDIAMILL_WORKER_PROCESSES."),
    ] = None,
) -> None:
    """Start everything here: the page and the API, the embedded database, and workers.

    Ctrl-C once: what runs is finished. Twice: everything stops at once, unfinished jobs wait for the next start.
    """
    import uvloop

    from mediamill.engine.flight_log import install
    from mediamill.settings import Settings

    settings = Settings()
    if workers is not None:
        settings = settings.model_copy(update={"worker_processes": workers})
    if _already_up(settings):
        return
    install(settings.log_level)
    uvloop.run(_up(settings))


async def _up(settings: Settings) -> None:
    from mediamill.app import open_app
    from mediamill.engine.alert_sender import send_alerts_forever
    from mediamill.engine.deliver import deliver_forever
    from mediamill.engine.recovery.sweep import note_server_start, recover_at_start, sweep_forever
    from mediamill.staging.sweep import sweep_staging_forever
    from mediamill.worker.supervisor import Supervisor

    async with open_app(settings, name="mediamill server", wait_seconds=math.inf, keep=True) as app:
        await note_server_start(app.database)
        await recover_at_start(app.database, app.engine)
        server = _make_server(app)
        supervisor = Supervisor(settings.worker_processes)
        tasks = [
            asyncio.create_task(sweep_forever(app.database, app.engine)),
            asyncio.create_task(deliver_forever(app.database, app.engine)),
            asyncio.create_task(send_alerts_forever(app.database, settings)),
            asyncio.create_task(
                sweep_staging_forever(
                    app.database,
                    settings.data_folder,
                    settings.staged_keep_hours * 3600,
                    settings.janitor_seconds,
                )
            ),
        ]
        serving = asyncio.create_task(server.serve())
        try:
            while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.02)
            if not serving.done():
                supervisor.start()
                _greet(server, settings)
                await _until_told_to_stop(supervisor, serving)
                await supervisor.stop()
        finally:
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        say("mediamill has stopped; nothing is lost, `mediamill up` goes on where it was.")


def _make_server(app: App) -> Server:
    from mediamill.api.server import Server, create_api
    from mediamill.ui.pages import add_pages

    api = create_api(app.database, app.engine, app.enqueuer, app.settings)
    add_pages(api, app.database, app.engine, app.settings)
    server = Server(api, app.settings)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    return server


async def _until_told_to_stop(supervisor: object, serving: asyncio.Task[None]) -> None:
    from mediamill.worker.supervisor import Supervisor

    assert isinstance(supervisor, Supervisor)
    told = asyncio.Event()

    def stop() -> None:
        if told.is_set():
            supervisor.signal(signal.SIGTERM)  # the second time: workers hand their jobs back
        else:
            say("finishing what runs (again to stop at once) …")
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    waiting = asyncio.create_task(told.wait())
    await asyncio.wait({waiting, serving}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _greet(server: Server, settings: Settings) -> None:
    where = "MEDIAMILL_DATABASE_URL" if settings.database_url else str(settings.data_folder)
    say(f"mediamill is up: {server.url}")
    say(f"  data in {where}, {settings.worker_processes} worker process(es); Ctrl-C stops it")
    say('  try it: mediamill jobs add scripted.run \'{"do": "report"}\' --count 5')


def _already_up(settings: Settings) -> bool:
    """Somebody listens already: if it is a mediamill, say where; if not, say what to do."""
    import httpx

    if settings.port == 0:
        return False
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.settimeout(2)
        if probe.connect_ex((host, settings.port)) != 0:
            return False
    url = f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
    with contextlib.suppress(httpx.HTTPError, ValueError, AttributeError):
        if "pending_jobs" in httpx.get(f"{url}/health", timeout=3, trust_env=False).json():
            say(f"mediamill is up already: {url}")
            return True
    raise PortTakenError(
        f"port {settings.port} is used by another program",
        fix="set MEDIAMILL_PORT to a free port and try again",
    )
