"""What somebody can hold before anybody knows who they are, shown with real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio.selector_events import _SelectorSocketTransport  # type: ignore[attr-defined]
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from mediamill.api import bounds, guard, welcome
from mediamill.db.connection import Database
from tests.api.serving import SECRET, Served, serve
from tests.conftest import wait_until

KNOWN = f"Authorization: Bearer {SECRET}\r\n"


@asynccontextmanager
async def line(
    served: Served, said: str = "", *, address: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection from this address, on which so much was sent."""
    port = httpx.URL(served.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        writer.write(said.encode())
        yield reader, writer
    finally:
        writer.transport.abort()


async def status_of(reader: asyncio.StreamReader) -> int:
    return int((await reader.readuntil(b"\r\n")).split()[1])


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """What was still said; a reset is an end, too."""
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize("where", ["one value", "many lines", "the path", "no end"])
async def test_a_head_that_is_too_long_is_refused_without_being_kept(served: Served, where: str) -> None:
    head = {
        "one value": f"GET /health HTTP/1.1\r\nHost: localhost\r\nX: {'x' * bounds.HEAD_BYTES}\r\n\r\n",
        "many lines": "GET /health HTTP/1.1\r\nHost: localhost\r\n" + "X: y\r\n" * bounds.HEAD_LINES + "\r\n",
        "the path": f"GET /{'x' * bounds.HEAD_BYTES} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "no end": f"GET /health HTTP/1.1\r\nX: {'x' * 4 * bounds.HEAD_BYTES}",
    }[where]
    async with line(served, head) as (reader, _):
        assert await status_of(reader) == 431
        await until_closed(reader)


async def test_megabytes_of_a_head_are_not_taken(served: Served) -> None:
    async with line(served, "GET /health HTTP/1.1\r\n") as (reader, writer):
        assert await sent_until_closed(writer) < 32 << 20
        await until_closed(reader)


async def sent_until_closed(writer: asyncio.StreamWriter) -> int:
    piece, sent = b"X: " + b"x" * 65_000 + b"\r\n", 0
    while sent < 1 << 30:
        try:
            writer.write(piece)
            await writer.drain()
        except ConnectionError:
            break
        sent += len(piece)
    return sent


async def test_a_head_just_short_enough_is_answered_whole_or_in_pieces(served: Served) -> None:
    lines = "".join(f"X-{number}: {'x' * 600}\r\n" for number in range(bounds.HEAD_LINES - 2))
    head = f"GET /health HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"
    assert len(head) < bounds.HEAD_BYTES
    async with line(served, head) as (reader, writer):
        assert await status_of(reader) == 200
        await reader.readuntil(b"}")
        for piece in (head[:10], head[10:5_000], head[5_000:]):
            writer.write(piece.encode())
            await writer.drain()
        assert await status_of(reader) == 200


@pytest.mark.parametrize("said", ["", "GET /health HT", "GET /health HTTP/1.1\r\nHost: localhost\r\nX: "])
async def test_a_head_that_does_not_come_closes_the_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(bounds, "HEAD_SECONDS", 0.5)
    async with line(served, said) as (reader, _):
        assert await until_closed(reader) == b""
    async with line(served, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as (
        reader,
        writer,
    ):  # the second too
        assert await status_of(reader) == 200
        await reader.readuntil(b"}")
        writer.write(said.encode())
        assert await until_closed(reader) == b""


async def test_dripping_bytes_of_a_head_do_not_win_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "HEAD_SECONDS", 0.5)
    async with line(served, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ") as (reader, writer):

        async def closed() -> bool:
            writer.write(b"x")
            return reader.at_eof() or writer.transport.is_closing()

        await wait_until(closed)


async def test_a_body_that_does_not_come_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(bounds, "LINGER_SECONDS", 0.3)
    head = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nname="
    async with line(served, head) as (reader, _):
        assert await status_of(reader) == 408
        await until_closed(reader)


async def test_who_may_not_ask_is_refused_before_the_body_comes(served: Served) -> None:
    wrong = "Authorization: Bearer mill_wrong\r\nContent-Length: 1000000\r\n"
    async with line(served, f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\n{wrong}\r\n") as (reader, _):
        async with asyncio.timeout(guard.BODY_SECONDS / 6):
            assert await status_of(reader) == 401


async def test_a_stranger_who_leaves_in_the_middle_of_a_body_writes_nothing_into_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    head = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nname="
    async with line(served, head):
        await wait_until(is_answering(served, 1))
    await wait_until(is_answering(served, 0))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def is_answering(served: Served, count: int) -> Callable[[], Awaitable[bool]]:
    """So many requests are being answered."""

    async def reached() -> bool:
        return len(served.server.server_state.tasks) == count

    return reached


@pytest.mark.pages
async def test_nothing_is_written_to_a_connection_that_had_to_make_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger asks a thousand times at once, and reads nothing."""
    written_late: list[bytes] = []
    write = _SelectorSocketTransport.write

    def watch(transport: asyncio.Transport, data: bytes) -> None:
        if transport.is_closing():
            written_late.append(data)
        write(transport, data)

    def find_full() -> bounds.Bounded | None:
        ours = (each for each in served.server.server_state.connections if isinstance(each, bounds.Bounded))
        return next((each for each in ours if each.flow.write_paused), None)

    async def is_full() -> bool:
        return find_full() is not None

    monkeypatch.setattr(_SelectorSocketTransport, "write", watch)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", httpx.URL(served.url).port))
        reader.sendall(b"GET /static/mediamill.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        await wait_until(is_full)
        full = find_full()
        assert full is not None
        full.abort()
        await wait_until(is_answering(served, 0))
    assert written_late == []


async def test_a_body_after_its_answer_does_not_keep_the_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LINGER_SECONDS", 0.3)
    head = "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    async with line(served, head) as (reader, writer):
        assert await status_of(reader) == 200

        async def closed() -> bool:
            writer.write(b"x")
            return reader.at_eof() or writer.transport.is_closing()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(until_closed(reader))
            tasks.create_task(wait_until(closed))


async def test_hundreds_of_half_sent_requests_do_not_hold_up_anybody(served: Served) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(400):
            await stack.enter_async_context(line(served, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "))
        assert len(served.server.server_state.connections) <= bounds.STRANGERS_OF_ADDRESS + 1
        async with asyncio.timeout(10), httpx.AsyncClient(base_url=served.url) as fresh:
            assert (await fresh.get("/health")).status_code == 200
            assert (await fresh.get("/api/jobs", headers=owner())).status_code == 200


def owner() -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRET}"}


async def test_a_connection_on_which_somebody_was_recognised_makes_no_room_for_strangers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "STRANGERS_OF_ADDRESS", 3)
    ask = "GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
    async with AsyncExitStack() as stack:
        known, writer = await stack.enter_async_context(line(served, ask.format("/api/jobs", KNOWN)))
        assert await status_of(known) == 200
        refused = "Authorization: Bearer wrong\r\n"
        unknown, _ = await stack.enter_async_context(line(served, ask.format("/api/jobs", refused)))
        assert await status_of(unknown) == 401
        for _ in range(3):
            await stack.enter_async_context(line(served, "GET"))
        await until_closed(unknown)
        writer.write(ask.format("/health", "").encode())
        await known.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(10):
            assert b"HTTP/1.1 200" in await known.readuntil(b"HTTP/1.1 200")


async def test_strangers_of_many_addresses_have_a_limit_in_all(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "STRANGERS_OF_ADDRESS", 3)
    monkeypatch.setattr(bounds, "MOST_STRANGERS", 5)
    ask = f"GET /api/jobs HTTP/1.1\r\nHost: localhost\r\n{KNOWN}\r\n"
    async with AsyncExitStack() as stack:
        known, _ = await stack.enter_async_context(line(served, ask, address="127.0.0.9"))
        assert await status_of(known) == 200
        lines = [
            (await stack.enter_async_context(line(served, "GET", address=f"127.0.0.{2 + number // 2}")))[0]
            for number in range(8)
        ]
        for oldest in lines[:3]:
            await until_closed(oldest)

        async def five_are_left() -> bool:
            return len(served.server.server_state.connections) == 1 + 5

        await wait_until(five_are_left)
        assert not any(each.at_eof() for each in [known, *lines[3:]])


async def test_who_asks_is_not_closed_for_those_who_do_not(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "STRANGERS_OF_ADDRESS", 3)
    body = "name=ann&password=wrong"
    head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    async with AsyncExitStack() as stack:
        reader, writer = await stack.enter_async_context(line(served, head + body[:5]))

        async def asks() -> bool:
            return any(
                isinstance(each, bounds.Bounded) and each.is_answering
                for each in served.server.server_state.connections
            )

        await wait_until(asks)
        for _ in range(6):
            await stack.enter_async_context(line(served, "GET"))
        writer.write(body[5:].encode())
        assert await status_of(reader) == 401


async def test_streams_of_one_caller_and_of_all_have_a_limit(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(database, tmp_path, streams_per_caller=3) as served, AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=served.url, timeout=30))

        async def follow(headers: dict[str, str]) -> httpx.Response:
            return await stack.enter_async_context(client.stream("GET", "/api/events", headers=headers))

        mine = [await follow({}) for _ in range(3)]
        assert [each.status_code for each in mine] == [200] * 3
        refused = await follow({})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert b"too_many_streams" in await refused.aread()
        assert (await follow(owner())).status_code == 200  # another caller
        monkeypatch.setattr(welcome, "MOST_STREAMS", 4)
        assert (await follow(owner())).status_code == 429
        await mine[0].aclose()

        async def there_is_room() -> bool:
            return (await follow({})).status_code == 200

        await wait_until(there_is_room)
