"""Long bodies are read from the socket itself, by a thread; on both event loops, and whatever the sender does."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest
import uvicorn
import uvloop
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from mediamill.api import connection, inbox
from mediamill.api.connection import LONG_BYTES, TURN_BYTES, BorrowedBody, Connection
from mediamill.api.inbox import Refusal, RequestBody
from mediamill.api.strangers import Strangers
from tests.conftest import wait_until

LONG = bytes(range(256)) * 4 * 5_000  # five megabytes


@dataclass
class Taker:
    """An application that takes bodies, and remembers how. It answers with what it got."""

    port: int = 0
    strangers: Strangers = field(default_factory=Strangers)
    borrowed: int = 0
    received: bytearray = field(default_factory=bytearray)
    ended: list[str] = field(default_factory=list)
    stops_after: int | None = None  # bytes; then it answers without the rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = RequestBody(Request(scope, receive))
        self.received.clear()
        try:
            answer = await self._take(body)
        except ClientDisconnect:
            answer = Response(status_code=400)
        except HTTPException as error:
            answer = Refusal(PlainTextResponse(error.detail, error.status_code), body)
        self.ended.append(str(answer.status_code))
        await answer(scope, receive, send)

    async def _take(self, body: RequestBody) -> Response:
        async for piece in body.pieces():
            if isinstance(piece, bytes):
                self.received += piece
            else:
                await asyncio.to_thread(self._pour, piece)
            if self.stops_after is not None and len(self.received) >= self.stops_after:
                body.give_back()
                break
        return PlainTextResponse(hashlib.sha256(self.received).hexdigest())

    def _pour(self, body: BorrowedBody) -> None:
        buffer = memoryview(bytearray(1 << 16))
        while got := body.read_into(buffer):
            self.borrowed += got
            self.received += buffer[:got]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


@asynccontextmanager
async def serving() -> AsyncIterator[Taker]:
    taker = Taker()
    with socket.create_server(("127.0.0.1", 0)) as door:
        taker.port = door.getsockname()[1]
        protocol = cast(type[asyncio.Protocol], partial(Connection, strangers=taker.strangers))
        server = uvicorn.Server(uvicorn.Config(taker, http=protocol, lifespan="off", log_config=None))
        task = asyncio.create_task(server.serve([door]))

        async def started() -> bool:
            assert not task.done(), task.exception()
            return server.started

        await wait_until(started)
        yield taker
        server.should_exit = True
        await task


Story = Callable[[Taker, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def tell(runner: asyncio.Runner, story: Story) -> Taker:
    """With one connection to a server."""

    async def told() -> Taker:
        async with asyncio.timeout(60), serving() as taker:
            reader, writer = await asyncio.open_connection("127.0.0.1", taker.port)
            try:
                await story(taker, reader, writer)
            finally:
                writer.close()
            return taker

    return runner.run(told())


def request(length: int | str, *more: str, method: str = "PATCH") -> bytes:
    said = f"Content-Length: {length}" if isinstance(length, int) else length
    return "\r\n".join([f"{method} / HTTP/1.1", "Host: x", said, *more, "", ""]).encode()


async def answer(reader: asyncio.StreamReader) -> tuple[int, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(head.lower().partition("content-length: ")[2].split()[0])
    return int(head.split()[1]), (await reader.readexactly(length)).decode()


def digest(body: bytes) -> tuple[int, str]:
    return 200, hashlib.sha256(body).hexdigest()


def test_a_long_body_is_borrowed_and_the_requests_behind_it_are_answered_too(runner: asyncio.Runner) -> None:
    async def story(_taker: Taker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            writer.write(request(len(LONG)) + LONG + request(5) + b"short" + request(len(LONG)) + LONG)
            assert await answer(reader) == digest(LONG)
            assert await answer(reader) == digest(b"short")
            assert await answer(reader) == digest(LONG)

    taker = tell(runner, story)
    assert taker.borrowed > 3 * (len(LONG) - LONG_BYTES)


@pytest.mark.parametrize("turn_seconds", [0.0, connection.TURN_SECONDS])
def test_a_body_is_taken_by_turns_however_slowly_it_comes(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, turn_seconds: float
) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS", turn_seconds)
    body = LONG * 8
    assert len(body) > 2 * TURN_BYTES

    async def story(taker: Taker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request(len(body)))
        for at, size in ((0, 1), (1, 100_000), (100_001, 7), (100_008, 300_000), (400_008, 1)):
            writer.write(body[at : at + size])

            async def came(so_far: int = at + size) -> bool:
                return len(taker.received) == so_far

            await wait_until(came)  # nothing is kept back
        writer.write(body[400_009:])
        assert await answer(reader) == digest(body)

    tell(runner, story)


def test_whose_body_is_borrowed_is_no_stranger(runner: asyncio.Runner) -> None:
    async def story(taker: Taker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request(len(LONG)) + LONG[:3_000_000])

        async def came() -> bool:
            return len(taker.received) == 3_000_000

        await wait_until(came)
        assert len(taker.strangers) == 0
        writer.write(LONG[3_000_000:])
        assert await answer(reader) == digest(LONG)

    tell(runner, story)


@pytest.mark.parametrize("sent", [LONG_BYTES, 3_000_000])
def test_every_byte_that_came_before_the_line_broke_is_there(runner: asyncio.Runner, sent: int) -> None:
    async def story(taker: Taker, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request(len(LONG)) + LONG[:sent])
        await writer.drain()
        writer.write_eof()

        async def ended() -> bool:
            return taker.ended == ["400"]

        await wait_until(ended)
        assert bytes(taker.received) == LONG[:sent]

    tell(runner, story)


def test_a_sender_who_stops_is_told_so(runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(taker: Taker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request(len(LONG)) + LONG[:2_999_999])

        async def came() -> bool:
            return len(taker.received) == 2_999_999

        await wait_until(came)
        monkeypatch.setattr(inbox, "STALL_SECONDS", 0.3)
        writer.write(LONG[2_999_999:3_000_000])  # what is waited for with the new limit comes after this
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.split()[1] == "408"
        assert "connection: close" in head
        assert bytes(taker.received) == LONG[:3_000_000]
        assert (await reader.read()).endswith(b"nothing more came")  # and the connection is closed

    tell(runner, story)


def test_what_nobody_wants_of_a_body_does_not_pass_for_the_next_request(runner: asyncio.Runner) -> None:
    async def story(taker: Taker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taker.stops_after = 1
        writer.write(request(len(LONG)) + LONG[:10])
        status, _ = await answer(reader)
        assert status == 200
        taker.stops_after = None
        writer.write(LONG[10:] + request(5) + b"short")
        assert await answer(reader) == digest(b"short")

    assert tell(runner, story).borrowed == 0


def test_who_asks_first_whether_to_send_is_told_to(runner: asyncio.Runner) -> None:
    async def story(_taker: Taker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request(len(LONG), "Expect: 100-continue"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(LONG)
        assert await answer(reader) == digest(LONG)

    assert tell(runner, story).borrowed > 0


def test_short_bodies_and_those_of_unknown_length_are_not_borrowed(runner: asyncio.Runner) -> None:
    async def story(_taker: Taker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chunk = LONG[: 2 * LONG_BYTES]
        writer.write(request(LONG_BYTES - 1) + LONG[: LONG_BYTES - 1])
        assert await answer(reader) == digest(LONG[: LONG_BYTES - 1])
        writer.write(
            request("Transfer-Encoding: chunked") + b"%x\r\n" % len(chunk) + chunk + b"\r\n0\r\n\r\n"
        )
        assert await answer(reader) == digest(chunk)
        writer.write(request(0, method="GET"))
        assert await answer(reader) == digest(b"")

    assert tell(runner, story).borrowed == 0
