"""Bodies of messages: read as a stream, and refused so that a sender who still sends gets to know it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mediamill.inputs.model import MAX_IMAGE_BYTES
from mediamill.inputs.spool import Spool, spool_folder
from mediamill.settings import Settings

SKIP_BYTES = 256 * 1024**2
SKIP_SECONDS = 10.0
STALL_SECONDS = 60.0  # a sender who says nothing for so long keeps room from others


class Inbox:
    """One per server: where images arrive, and how many of them are stored at once."""

    def __init__(self, settings: Settings) -> None:
        self.spool = Spool(spool_folder(settings.data_folder))
        self.storing = StoringRoom(MAX_IMAGE_BYTES)


class StoringRoom:
    """PostgreSQL holds each image that it is given about twice in memory: so many bytes at once, in order of arrival.

    That also leaves connections to everybody else.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self._taken_bytes = limit_bytes, 0
        self._turn, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Wait for the room; it is given back at the end."""
        async with self._turn:
            while self._taken_bytes + size > self._limit_bytes:
                self._freed.clear()
                await self._freed.wait()
            self._taken_bytes += size
        try:
            yield
        finally:
            self._taken_bytes -= size
            self._freed.set()


class RequestBody:
    """The body of a request as it arrives."""

    def __init__(self, request: Request) -> None:
        self._receive = request.receive
        self._ended = False
        self._waiting: asyncio.Timeout | None = None
        self._waits_since = 0.0

    async def chunks(self) -> AsyncIterator[bytes]:
        """ClientDisconnect: it broke off."""
        while not self._ended:
            try:
                message = await self._wait()
            except TimeoutError:
                raise HTTPException(408, "nothing more came") from None
            if message["type"] == "http.disconnect":
                self._ended = True
                raise ClientDisconnect
            self._ended = not message.get("more_body", False)
            yield message.get("body", b"")

    async def _wait(self) -> Message:
        self._waits_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(STALL_SECONDS) as self._waiting:
                return await self._receive()
        finally:
            self._waiting = None

    def end_if_silent(self, seconds: float) -> None:
        """Somebody else wants to go on in its place: a line that broke unnoticed is not waited for any longer."""
        now = asyncio.get_running_loop().time()
        if self._waiting is not None and now - self._waits_since >= seconds:
            self._waiting.reschedule(now)

    async def skip(self) -> None:
        """Read on for a while for nothing: a connection that is closed on somebody who sends loses the answer."""
        skipped = 0
        try:
            async with asyncio.timeout(SKIP_SECONDS):
                async for chunk in self.chunks():
                    skipped += len(chunk)
                    if skipped > SKIP_BYTES:
                        return
        except (TimeoutError, ClientDisconnect, HTTPException):
            return


class Refusal(Response):
    """An answer that is sent whole at once; then the rest of the body is skipped and the connection closed."""

    def __init__(self, answer: Response, body: RequestBody) -> None:
        self._answer, self._rest = answer, body
        super().__init__(status_code=answer.status_code)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Some senders read nothing before they have sent all of it."""
        headers = [*self._answer.raw_headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": self._answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self._answer.body, "more_body": True})
        await self._rest.skip()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
