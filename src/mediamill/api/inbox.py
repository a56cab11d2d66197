"""Bodies of messages: read as a stream, and refused so that a sender who still sends gets to know it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mediamill.api.connection import BorrowedBody, borrow_body
from mediamill.inputs.model import MAX_IMAGE_BYTES
from mediamill.inputs.spool import Spool, spool_folder
from mediamill.settings import Settings

T = TypeVar("T")

SKIP_BYTES = 256 * 1024**2
SKIP_PIECE_BYTES = 1 << 18
SKIP_SECONDS = 10.0
STALL_SECONDS = 60.0  # a sender who says nothing for so long keeps room from others


class Inbox:
    """One per server: where images arrive, and how many of them are stored at once."""

    def __init__(self, settings: Settings) -> None:
        self.spool = Spool(spool_folder(settings.data_folder), takes_images=settings.image_input)
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
        self._request = request
        self._borrowed: BorrowedBody | None = None
        self._ended = False
        self._waiting: asyncio.Timeout | None = None
        self._waits_since = 0.0

    async def chunks(self) -> AsyncIterator[bytes]:
        """ClientDisconnect: it broke off."""
        while not self._ended:
            yield await self._receive()

    async def pieces(self) -> AsyncIterator[bytes | BorrowedBody]:
        """The same; but the rest of a long body is for a thread to take: it is given whenever there is some of it."""
        while not self._is_over():
            if self._borrowed is None:
                chunk = await self._receive()
                self._borrowed = None if self._ended else borrow_body(self._request)
                yield chunk
            else:
                await self._wait(self._borrowed.wait())
                yield self._borrowed

    async def _receive(self) -> bytes:
        message = await self._wait(self._request.receive())
        if message["type"] == "http.disconnect":
            self._ended = True
            raise ClientDisconnect
        self._ended = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    def _is_over(self) -> bool:
        if self._borrowed is not None and (self._borrowed.broken or not self._borrowed.left):
            broken = self._borrowed.broken
            self.give_back()
            if broken:
                raise ClientDisconnect
        return self._ended

    def give_back(self) -> None:
        """To the connection, what was borrowed of it: nothing more will be read."""
        if self._borrowed is not None:
            self._borrowed.give_back()
            self._borrowed, self._ended = None, True

    async def _wait(self, arrival: Awaitable[T]) -> T:
        self._waits_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(STALL_SECONDS) as self._waiting:
                return await arrival
        except TimeoutError:
            raise HTTPException(408, "nothing more came") from None
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
                async for piece in self.pieces():
                    skipped += (
                        len(piece) if isinstance(piece, bytes) else await asyncio.to_thread(_drop, piece)
                    )
                    if skipped > SKIP_BYTES:
                        return
        except (TimeoutError, ClientDisconnect, HTTPException):
            return


def _drop(body: BorrowedBody) -> int:
    """One turn for nothing; how much it was."""
    before, buffer = body.left, memoryview(bytearray(SKIP_PIECE_BYTES))
    while body.read_into(buffer):
        pass
    return before - body.left


class Refusal(Response):
    """An answer that is sent whole at once; then the rest of the body is skipped and the connection closed."""

    def __init__(self, answer: Response, body: RequestBody) -> None:
        self._answer, self._rest = answer, body
        super().__init__(status_code=answer.status_code)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Some senders read nothing before they have sent all of it."""
        headers = [*self._answer.raw_headers, (b"connection", b"close")]
        try:
            await send(
                {"type": "http.response.start", "status": self._answer.status_code, "headers": headers}
            )
            await send({"type": "http.response.body", "body": self._answer.body, "more_body": True})
            await self._rest.skip()
        finally:
            self._rest.give_back()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
