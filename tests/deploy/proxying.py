"""Real proxies in front of a server of a test."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.conftest import wait_until

ROOT = Path(__file__).parents[2]
FOUND = ROOT / ".tools" / "proxies"
NOBODY = 65534
NGINX = """daemon off;
{user}
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""
CADDY = """{{
    admin off
    auto_https disable_redirects
    local_certs
    skip_install_trust
    storage file_system {folder}/storage
}}
{server}
"""


def program(name: str) -> Path:
    """The executable of `nginx` or `caddy`."""
    assert FOUND.exists(), "no proxies; make .tools/proxies finds or fetches them"
    return next(Path(line) for line in FOUND.read_text().splitlines() if Path(line).name == name)


@asynccontextmanager
async def nginx(server: str, port: int, *, somebody_else: bool = False) -> AsyncIterator[None]:
    """Serving by this `server` block; its workers run as we do, or as another user."""
    with _Folder(somebody_else) as folder:
        name = "nobody nogroup" if somebody_else else "root root"
        user = f"user {name};" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(NGINX.format(user=user, folder=folder, server=server))
        words = [str(program("nginx")), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        async with _running(words, folder, port, None):
            yield


@asynccontextmanager
async def caddy(server: str, port: int, *, somebody_else: bool = False) -> AsyncIterator[None]:
    """The same for a Caddyfile."""
    with _Folder(somebody_else) as folder:
        (folder / "Caddyfile").write_text(CADDY.format(folder=folder, server=server))
        own = shutil.copy(program("caddy"), folder / "caddy")  # another user may not reach into this clone
        words = [str(own), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
        async with _running(words, folder, port, NOBODY if somebody_else else None):
            yield


class _Folder:
    """Where a proxy keeps its things; another user's, if it is one."""

    def __init__(self, somebody_else: bool) -> None:
        self._made = tempfile.TemporaryDirectory(prefix="mediamill-proxy-", ignore_cleanup_errors=True)
        self._somebody_else = somebody_else

    def __enter__(self) -> Path:
        folder = Path(self._made.name)
        if self._somebody_else:
            os.chown(folder, NOBODY, NOBODY)
        return folder

    def __exit__(self, *_: object) -> None:
        self._made.cleanup()


@asynccontextmanager
async def _running(words: list[str], folder: Path, port: int, user: int | None) -> AsyncIterator[None]:
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(  # noqa: ASYNC220
            words,
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            user=user,
            group=user,
            env={"HOME": str(folder), "PATH": os.environ["PATH"]},
        )

    async def listens() -> bool:
        assert process.poll() is None, (folder / "said").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        await wait_until(listens)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)


async def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that nobody signed but itself, and its key."""
    made, key = folder / "cert.pem", folder / "key.pem"
    words = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "2")
    process = await asyncio.create_subprocess_exec(
        *words, "-keyout", key, "-out", made, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert await process.wait() == 0
    return made, key
