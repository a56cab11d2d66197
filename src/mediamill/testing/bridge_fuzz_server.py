"""A server of its own for the fuzz run of a bridge's door: a real `mediamill up` in a folder that is thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from mediamill.client.wire import LocalPass
from mediamill.errors import UnavailableError
from mediamill.testing.bridge_fuzz import BridgeFuzz, BridgeFuzzReport

START_SECONDS = 60.0
STOP_SECONDS = 30.0
NO_BRIDGE = "http://127.0.0.1:9"  # nobody is there: the fuzz run plays the bridge


class ServerDidNotStartError(UnavailableError):
    """The server for the fuzz run did not start."""

    code = "server_did_not_start"


# Everybody gets in, so that every frame is looked at.
ACCESS = {"mode": "open", "groups": "always", "messages_per_day": 0, "media_seconds_per_day": 0}


async def fuzz_own_server(frames: int, seed: int) -> BridgeFuzzReport:
    """The figures. A server that died is a fault like any other."""
    secret = secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="mediamill-fuzz-", ignore_cleanup_errors=True) as folder:
        async with _server(Path(folder), secret) as (process, url):
            fuzz = BridgeFuzz(
                f"{url.replace('http', 'ws', 1)}/api/bridge/whatsapp/fuzz", secret, frames=frames, seed=seed
            )
            try:
                report = await fuzz.run()
            except OSError as error:
                report = fuzz.report
                report.faults.append(f"the server cannot be reached any more: {error}")
            if process.returncode is not None:
                report.faults.append(f"the server died with {process.returncode}")
    return report


@asynccontextmanager
async def _server(folder: Path, secret: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAMILL_")}
    given = {
        "DATA": str(folder / "data"),
        "PORT": str(port),
        "BRIDGE_URL": NO_BRIDGE,
        "BRIDGE_SECRET": secret,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mediamill", "up", "--workers", "0"),
        env={**ours, **{f"MEDIAMILL_{name}": value for name, value in given.items()}},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _create_bot(url, LocalPass(folder / "data"), process)
        yield process, url
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()


async def _create_bot(url: str, owner: LocalPass, process: asyncio.subprocess.Process) -> None:
    """As soon as the server answers; then until the bot runs."""
    bot = {"id": "fuzz", "start": True, "config": {"providers": {"whatsapp": {}}, "access": ACCESS}}
    try:
        async with (
            asyncio.timeout(START_SECONDS),
            httpx.AsyncClient(base_url=url, auth=owner, trust_env=False) as client,
        ):
            while process.returncode is None:
                with contextlib.suppress(httpx.HTTPError):
                    await client.post("/api/bots", json=bot)
                    shown = (await client.get("/api/bots/fuzz")).json()
                    if "whatsapp" in (shown.get("status") or {}):
                        return
                await asyncio.sleep(0.1)
    except TimeoutError:
        pass
    raise ServerDidNotStartError(fix="mediamill doctor tells what is wrong")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
