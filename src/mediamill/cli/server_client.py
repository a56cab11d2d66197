"""A small client of the running server, for commands that talk to it instead of the database."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mediamill.errors import MediamillError, UnavailableError

if TYPE_CHECKING:
    import httpx

    from mediamill.settings import Settings

CHUNK_BYTES = 1 << 18
TRIES = 4
ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104

Progress = Callable[[int], None]


class NoServerError(UnavailableError):
    """No mediamill runs there."""

    code = "no_server"


class ServerSaidError(MediamillError):
    """The server refused."""

    def __init__(self, code: str, message: str, fix: str | None) -> None:
        super().__init__(message, fix=fix)
        self.code = code


def server_url(settings: Settings) -> str:
    """Where the server of these settings is reached from this machine."""
    host = "127.0.0.1" if settings.host in ANY_ADDRESS else settings.host
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[ServerClient]:
    """A client; NoServerError if nobody is there."""
    import httpx

    from mediamill.client.wire import LocalPass

    headers = {}
    secret = settings.token or settings.admin_secret
    if secret is not None:
        headers["Authorization"] = f"Bearer {secret.get_secret_value()}"
    timeout = httpx.Timeout(60, connect=5)
    async with httpx.AsyncClient(
        base_url=server_url(settings),
        headers=headers,
        auth=LocalPass(settings.data_folder),
        timeout=timeout,
        trust_env=False,
    ) as http:
        yield ServerClient(http)


class ServerClient:
    """What the chat asks of the server."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """The answer's JSON. What the server refuses comes back as its own words."""
        import httpx

        try:
            answer = await self._http.request(method, path, **more)
        except httpx.ConnectError:
            raise NoServerError(
                f"no mediamill runs at {self._http.base_url}", fix="start it: mediamill up"
            ) from None
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise NoServerError(f"the server at {self._http.base_url} does not answer: {what}") from error
        return _read(answer)

    async def insist(self, method: str, path: str, **more: Any) -> Any:
        """Ask again if the server goes away meanwhile; only for what can be asked twice."""
        for pause in (*(0.5 * 2**number for number in range(TRIES - 1)), None):
            try:
                return await self.ask(method, path, **more)
            except NoServerError:
                if pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError

    async def say(self, bot: str, correspondent: str, text: str, **facts: str) -> Any:
        """A text; see the API."""
        path = f"/api/bots/{quote(bot, safe='')}/chat/{quote(correspondent, safe='')}/messages"
        return await self.insist("POST", path, json={"text": text, **facts})

    async def send_file(
        self, bot: str, correspondent: str, file: Path, mime_type: str, progress: Progress, **facts: str
    ) -> Any:
        """A file; see the API. `progress` is told the percent that is sent."""
        path = f"/api/bots/{quote(bot, safe='')}/chat/{quote(correspondent, safe='')}/media"
        length = (await asyncio.to_thread(file.stat)).st_size
        headers = {"Content-Type": mime_type, "Content-Length": str(length)}
        return await self.ask(
            "POST", path, content=_chunks(file, length, progress), params=facts, headers=headers
        )

    async def events(self, bot: str) -> AsyncIterator[None]:
        """Something happened to a message of this bot; also told once at the beginning. Ends when the server goes."""
        import httpx

        query = {"topic": ["message.received", "message.ready", "reply.failed"], "subject": [bot]}
        timeout = httpx.Timeout(5, read=90)  # the server says something every 30 seconds
        try:
            async with self._http.stream("GET", "/api/events", params=query, timeout=timeout) as answer:
                if answer.status_code != 200:
                    return
                async for line in answer.aiter_lines():
                    if line.startswith(("event:", ": connected")):
                        yield
        except httpx.HTTPError:
            return


def _read(answer: httpx.Response) -> Any:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.is_success and body is not None:
        return body
    if not isinstance(body, dict) or "code" not in body:
        raise NoServerError(
            f"{answer.request.url.host}:{answer.request.url.port} is not a mediamill",
            fix="look at MEDIAMILL_PORT",
        )
    raise ServerSaidError(body["code"], str(body.get("detail")), body.get("fix"))


async def _chunks(file: Path, length: int, progress: Progress) -> AsyncIterator[bytes]:
    """No more than was announced, even if the file grows meanwhile."""
    sent = 0
    descriptor = await asyncio.to_thread(os.open, file, os.O_RDONLY)
    try:
        while sent < length and (chunk := await asyncio.to_thread(os.read, descriptor, CHUNK_BYTES)):
            chunk = chunk[: length - sent]
            sent += len(chunk)
            yield chunk
            progress(100 * sent // length)
    finally:
        os.close(descriptor)
