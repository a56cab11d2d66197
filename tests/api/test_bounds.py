"""What somebody can hold before anybody knows who they are, shown with real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio.selector_events import _SelectorSocketTransport  # type: ignore[attr-defined]
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from mediamill.api import bounds, guard, strangers, welcome
from mediamill.api.strangers import Strangers
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


async def test_dripping_bytes_of_a_body_win_little_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 3600.0)
    monkeypatch.setattr(guard, "BODY_GRACE_SECONDS", 0.3)
    head = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nname="
    async with line(served, head) as (reader, writer), asyncio.timeout(60):
        status = asyncio.create_task(status_of(reader))

        async def answered() -> bool:
            writer.write(b"x")
            return status.done()

        await wait_until(answered)
        assert await status == 408


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
    written_late: list[bytes] = []
    write = _SelectorSocketTransport.write

    def watch(transport: asyncio.Transport, data: bytes) -> None:
        if transport.is_closing():
            written_late.append(data)
        write(transport, data)

    async def is_full() -> bool:
        return find_full(served) is not None

    monkeypatch.setattr(_SelectorSocketTransport, "write", watch)
    with careless_reader(served):
        await wait_until(is_full)
        full = find_full(served)
        assert full is not None
        full.abort()
        await wait_until(is_answering(served, 0))
    assert written_late == []


@contextmanager
def careless_reader(served: Served) -> Iterator[None]:
    """Asks a thousand times at once, and reads nothing."""
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", httpx.URL(served.url).port))
        reader.sendall(b"GET /static/mediamill.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        yield


def find_full(served: Served) -> bounds.Bounded | None:
    """The connection on which answers wait to be read."""
    return next((each for each in connections(served) if each.flow.write_paused), None)


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
        await wait_until(holds(served, strangers.STRANGERS_OF_ADDRESS))
        async with asyncio.timeout(10), httpx.AsyncClient(base_url=served.url) as fresh:
            assert (await fresh.get("/health")).status_code == 200
            assert (await fresh.get("/api/jobs", headers=owner())).status_code == 200


def owner() -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRET}"}


async def test_a_connection_on_which_somebody_was_recognised_makes_no_room_for_strangers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 3)
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


async def test_somebody_recognised_may_send_a_body_slowly_beside_strangers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 3)
    head = f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\n{KNOWN}Content-Length: 9\r\n\r\n"
    async with AsyncExitStack() as stack:
        reader, writer = await stack.enter_async_context(line(served, head + "not "))

        async def is_recognised() -> bool:
            return bool(connections(served)) and len(strangers_of(served)) == 0

        await wait_until(is_recognised)
        silent = [(await stack.enter_async_context(line(served)))[0] for _ in range(6)]
        for each in silent[:3]:
            assert await until_closed(each) == b""
        writer.write(b"valid")
        assert await status_of(reader) == 422


def strangers_of(served: Served) -> Strangers:
    (connection, *_) = connections(served)
    return connection._strangers


async def test_strangers_of_many_addresses_have_a_limit_in_all(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 3)
    monkeypatch.setattr(strangers, "MOST_STRANGERS", 5)
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


SLOW_BODY = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nname="
HEALTH = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def holds(served: Served, count: int) -> Callable[[], Awaitable[bool]]:
    """So many connections are open."""

    async def reached() -> bool:
        return len(served.server.server_state.connections) == count

    return reached


async def test_slow_bodies_make_room_for_a_newcomer_that_has_not_asked_yet(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 3)
    async with AsyncExitStack() as stack:
        slow = []
        for count in (1, 2):
            slow.append((await stack.enter_async_context(line(served, SLOW_BODY)))[0])
            await wait_until(holds(served, count))
        newcomer, writer = await stack.enter_async_context(line(served))
        await wait_until(holds(served, 3))
        for each in slow:
            await stack.enter_async_context(line(served, SLOW_BODY))
            assert await until_closed(each) == b""
        writer.write(HEALTH.encode())
        assert await status_of(newcomer) == 200


async def test_a_body_at_a_good_pace_is_not_closed_for_one_that_came_later_and_is_slow(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 2)
    body = "name=ann&password=" + "x" * 50_000
    head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    async with AsyncExitStack() as stack:
        reader, writer = await stack.enter_async_context(line(served, head))
        await wait_until(holds(served, 1))
        slow, slow_writer = await stack.enter_async_context(line(served, SLOW_BODY))
        await wait_until(holds(served, 2))
        writer.write(body[:40_000].encode())
        await wait_until(is_slowest(served, slow_writer))
        await stack.enter_async_context(line(served))
        assert await until_closed(slow) == b""
        writer.write(body[40_000:].encode())
        assert await status_of(reader) == 401


def is_slowest(served: Served, writer: asyncio.StreamWriter) -> Callable[[], Awaitable[bool]]:
    """The server has waited for this one the longest."""
    port = writer.get_extra_info("sockname")[1]

    async def reached() -> bool:
        slowest = min(connections(served), key=lambda each: each.waiting_since)
        return slowest.client is not None and slowest.client[1] == port

    return reached


def connections(served: Served) -> list[bounds.Bounded]:
    return [each for each in served.server.server_state.connections if isinstance(each, bounds.Bounded)]


async def test_who_waits_for_an_answer_is_the_last_to_make_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 3)
    answered = hold_answers(monkeypatch)
    async with AsyncExitStack() as stack:
        reader, _ = await stack.enter_async_context(line(served, HEALTH))
        await wait_until(is_answering(served, 1))
        silent = [(await stack.enter_async_context(line(served)))[0] for _ in range(8)]
        for each in silent[:6]:
            assert await until_closed(each) == b""
        answered.set()
        assert await status_of(reader) == 200


def hold_answers(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No request is answered before this event."""
    serve_now, answered = guard.Guard._serve, asyncio.Event()

    async def serve_later(self: guard.Guard, scope: Scope, receive: Receive, send: Send) -> None:
        await answered.wait()
        await serve_now(self, scope, receive, send)

    monkeypatch.setattr(guard.Guard, "_serve", serve_later)
    return answered


@pytest.mark.pages
async def test_who_does_not_read_its_answers_makes_room_for_a_newcomer(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 2)

    async def is_full() -> bool:
        return find_full(served) is not None

    async def is_closed() -> bool:
        return find_full(served) is None

    async with AsyncExitStack() as stack:
        stack.enter_context(careless_reader(served))
        await wait_until(is_full)
        newcomer, writer = await stack.enter_async_context(line(served))
        await wait_until(holds(served, 2))
        await stack.enter_async_context(line(served))
        await wait_until(is_closed)
        writer.write(HEALTH.encode())
        assert await status_of(newcomer) == 200


async def test_of_many_that_come_at_once_each_is_read_before_any_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer in the middle of a burst: the server accepts all of it before it reads any."""
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 3)
    with ExitStack() as stack:
        newcomer = burst(stack, served, [HEALTH, *[SLOW_BODY] * 30])[0]
        assert (await asyncio.to_thread(newcomer.recv, 100)).startswith(b"HTTP/1.1 200")


def burst(stack: ExitStack, served: Served, said: Sequence[str]) -> list[socket.socket]:
    """Connections that all wait to be accepted: the server, which has the same event loop, does nothing meanwhile."""
    port = httpx.URL(served.url).port
    assert port is not None
    lines = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in said]
    for each, text in zip(lines, said, strict=True):
        each.sendall(text.encode())
    return lines


async def test_slow_bodies_that_had_to_make_room_never_reached_the_application(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 4)
    monkeypatch.setattr(bounds, "DISPATCH_SECONDS", 3600.0)
    begun = count_begun(monkeypatch)
    with ExitStack() as stack:
        burst(stack, served, [SLOW_BODY] * 40)
        await wait_until(holds(served, 4))
        assert len(begun) <= 1  # the first, if it was read before others came


def count_begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that the application has seen."""
    serve_now, begun = guard.Guard._serve, list[str]()

    async def serve_noted(self: guard.Guard, scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["path"])
        await serve_now(self, scope, receive, send)

    monkeypatch.setattr(guard.Guard, "_serve", serve_noted)
    return begun


@pytest.mark.parametrize("body", ["name=ann&password=wrong", "name=" + "x" * 1_000_000])
async def test_among_many_strangers_a_request_is_answered_as_soon_as_its_body_is_there(
    served: Served, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    crowd(monkeypatch, dispatch_seconds=3600.0)
    head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    begun = count_begun(monkeypatch)

    async def is_read() -> bool:
        return any(each.is_answering for each in connections(served))

    async with line(served, head + body[:5]) as (reader, writer):
        await wait_until(is_read)
        assert begun == []
        writer.write((body[5:] + HEALTH + HEALTH).encode())
        assert await status_of(reader) == 401
        for _ in range(2):
            assert b"HTTP/1.1 200" in await reader.readuntil(b"HTTP/1.1 200")


def crowd(monkeypatch: pytest.MonkeyPatch, dispatch_seconds: float) -> None:
    """From the first connection on there are many strangers."""
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 2)
    monkeypatch.setattr(bounds, "DISPATCH_SECONDS", dispatch_seconds)


async def test_among_many_strangers_who_may_not_ask_is_refused_before_the_body_comes(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(monkeypatch, dispatch_seconds=0.1)
    wrong = "Authorization: Bearer mill_wrong\r\nContent-Length: 1000000\r\n"
    async with line(served, f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\n{wrong}\r\n") as (reader, _):
        assert await status_of(reader) == 401


async def test_among_many_strangers_who_asks_first_whether_to_send_is_told_to(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(monkeypatch, dispatch_seconds=3600.0)
    head = "POST /login HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    async with line(served, head) as (reader, writer):
        assert await status_of(reader) == 100
        writer.write(b"name=")
        assert b"HTTP/1.1 401" in await reader.readuntil(b"HTTP/1.1 401")


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
