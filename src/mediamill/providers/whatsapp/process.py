"""The bridge's process: set up, started, listened to, started again when it dies, and stopped in good order.

It holds the other end of a pipe from us as its standard input: however we end, it ends too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from mediamill.environment import network_environment, secret_file
from mediamill.errors import MediamillError
from mediamill.providers.whatsapp.install import Installed, find_source, install
from mediamill.providers.whatsapp.secret import bridge_secret
from mediamill.settings import Settings
from mediamill.staging import staging_folder

log = logging.getLogger(__name__)

FOLDER = "whatsapp"
TOOLS = "tools"
OWN = ("BRIDGE_LOG", "NODE_OPTIONS")  # what a bridge may be told besides
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 30.0
START_SECONDS = 60.0
STOP_SECONDS = 10.0
LINE_BYTES = 4_096
LEVELS = {10: logging.DEBUG, 20: logging.DEBUG, 30: logging.INFO, 40: logging.WARNING}

IsUp = Callable[[str], None]
Tell = Callable[[Mapping[str, Any]], None]


class BridgeProcess:
    """One at a time. `is_up` is told its address whenever it was started, `tell` why there is none."""

    def __init__(self, settings: Settings, is_up: IsUp, tell: Tell) -> None:
        self._settings, self._is_up, self._tell = settings, is_up, tell

    async def run(self) -> None:
        """Until cancelled."""
        pause, loop = FIRST_PAUSE_SECONDS, asyncio.get_running_loop()
        while True:
            started_at = loop.time()
            what = await self._run_once()
            steady = loop.time() - started_at > STEADY_SECONDS
            pause = FIRST_PAUSE_SECONDS if steady else min(2 * pause, LONGEST_PAUSE_SECONDS)
            log.warning("the WhatsApp bridge %s; it is started again in %g s", what, pause)
            self._tell({"state": "connecting", "detail": f"the bridge {what}"})
            await asyncio.sleep(pause)

    async def _run_once(self) -> str:
        """One life of it; how it ended."""
        try:
            installed = await _in_thread(self._install)
            return await self._live(installed)
        except MediamillError as error:
            return f"cannot be set up: {error.message}" + (f" ({error.fix})" if error.fix else "")
        except OSError as error:
            return f"cannot be started: {error}"
        except Exception as error:
            log.exception("the WhatsApp bridge cannot be run")
            return f"cannot be run: {type(error).__name__}"

    def _install(self, loop: asyncio.AbstractEventLoop) -> Installed:
        def tell(what: str) -> None:
            log.info("WhatsApp bridge: %s; this is done once", what)
            loop.call_soon_threadsafe(self._tell, {"state": "installing", "detail": what})

        return install(find_source(), self._settings.data_folder / TOOLS, tell)

    async def _live(self, installed: Installed) -> str:
        with secret_file(bridge_secret(self._settings).encode()) as secret:
            process = await asyncio.create_subprocess_exec(
                str(installed.node),
                str(installed.main),
                env=self._environment(secret),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=[secret],
                start_new_session=True,
            )
        assert process.stdout is not None
        assert process.stderr is not None
        listening = asyncio.create_task(_read_log(process.stderr))
        try:
            port = await _read_port(process.stdout)
            if port is not None:
                log.info("the WhatsApp bridge is up on port %d", port)
                self._is_up(f"http://127.0.0.1:{port}")
                draining = asyncio.create_task(_drain(process.stdout))
                try:
                    return f"ended with {await process.wait()}"
                finally:
                    draining.cancel()
        finally:
            await _end(process)
            listening.cancel()
        return "did not start in time"

    def _environment(self, secret: int) -> dict[str, str]:
        """No secret is in it, unless the address of a proxy holds one."""
        settings = self._settings
        kept = {name: os.environ[name] for name in OWN if name in os.environ}
        return {
            **network_environment(),
            **kept,
            "BRIDGE_SECRET_FD": str(secret),
            "BRIDGE_DATA": str(settings.data_folder / FOLDER),
            "BRIDGE_STAGING": str(staging_folder(settings.data_folder)),
            "BRIDGE_BACKEND": backend_url(settings),
            "BRIDGE_HOST": "127.0.0.1",
            "BRIDGE_PORT": "0",
        }


def backend_url(settings: Settings) -> str:
    """Where a bridge on this machine reaches the server."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
    host = everywhere.get(settings.host, settings.host)
    return f"ws://[{host}]:{settings.port}" if ":" in host else f"ws://{host}:{settings.port}"


async def _in_thread(work: Callable[[asyncio.AbstractEventLoop], Installed]) -> Installed:
    """In a thread that nobody waits for at the end: a set-up may take minutes, and can be done again."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Installed] = loop.create_future()

    def settle(result: Installed | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        elif result is not None:
            done.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = work(loop)
        except Exception as caught:
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="WhatsApp bridge set-up", daemon=True).start()
    return await done


async def _read_port(stdout: asyncio.StreamReader) -> int | None:
    try:
        async with asyncio.timeout(START_SECONDS):
            found = json.loads(await stdout.readline())
            return int(found["listening"])
    except (TimeoutError, ValueError, KeyError, TypeError):
        return None


async def _drain(stdout: asyncio.StreamReader) -> None:
    """Nothing more is expected there, but a full pipe would stop it."""
    while await stdout.read(LINE_BYTES):
        pass


async def _read_log(stderr: asyncio.StreamReader) -> None:
    """Its log into ours: line by line, and of a long line only the beginning."""
    rest = b""
    while chunk := await stderr.read(LINE_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:LINE_BYTES]
        for line in lines:
            _log_line(line[:LINE_BYTES])
    if rest:
        _log_line(rest)


def _log_line(line: bytes) -> None:
    text = line.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
        level = LEVELS.get(found.pop("level", 30), logging.ERROR)
        said = str(found.pop("msg", ""))
        facts = ", ".join(f"{name}={value}" for name, value in found.items() if name not in ("time", "stack"))
    except (ValueError, AttributeError, TypeError, RecursionError):
        level, said, facts = logging.INFO, text, ""
    if text:
        log.log(level, "WhatsApp bridge: %s%s", said[:500], f" ({facts[:1000]})" if facts else "")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Its standard input closes, and it is asked; then it must."""
    if process.returncode is not None:
        return
    with contextlib.suppress(OSError, RuntimeError):
        if process.stdin is not None:
            process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
