"""Messages over bare sockets: senders that lie about lengths, break off, or do not read before they have sent."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mediamill.api import inbox
from mediamill.inputs.model import BODY_LIMIT_BYTES
from tests.api.messaging import JSON, incoming, runs
from tests.api.serving import Served
from tests.conftest import wait_until
from tests.inputs.bodies import GIF, body_of, image

MEGABYTE = 1024**2
LARGE = body_of(image(GIF + bytes(9 * MEGABYTE)))


@asynccontextmanager
async def line(
    served: Served, *headers: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which a message was begun."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = [f"POST /v1/messages HTTP/1.1\r\nHost: {host}", "Content-Type: application/json", *headers]
    writer.write(("\r\n".join(head) + "\r\n\r\n").encode())
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer_on(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    async with asyncio.timeout(30):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split()[0])
        return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def settled(served: Served, folder: Path, *, want_runs: int = 0) -> None:
    async def nothing_left() -> bool:
        return not incoming(folder)

    await wait_until(nothing_left)
    assert await runs(served) == want_runs


async def test_a_sender_who_breaks_off_leaves_no_file_and_no_run(served: Served, tmp_path: Path) -> None:
    for announced in (f"Content-Length: {len(LARGE)}", "Transfer-Encoding: chunked"):
        async with line(served, announced) as (_, writer):
            part = LARGE[: 6 * MEGABYTE]
            writer.write(part if "Length" in announced else f"{len(LARGE):x}\r\n".encode() + part)
            await writer.drain()

            async def begun() -> bool:
                return bool(incoming(tmp_path))

            await wait_until(begun)
        await settled(served, tmp_path)


async def test_a_length_that_is_too_short_cuts_the_message(served: Served, tmp_path: Path) -> None:
    body = body_of(image())
    async with line(served, f"Content-Length: {len(body) - 5}") as (reader, writer):
        writer.write(body)
        head = await reader.readuntil(b"\r\n\r\n")
    assert int(head.split()[1]) in (400, 422)  # the JSON is cut, and what follows it is no request
    await settled(served, tmp_path)


async def test_a_length_that_is_too_long_is_waited_for_and_never_taken_as_whole(
    served: Served, tmp_path: Path
) -> None:
    body = body_of(image())
    async with line(served, f"Content-Length: {len(body) + 5}") as (reader, writer):
        writer.write(body)

        async def begun() -> bool:
            return (await served.client.get("/health")).status_code == 200

        await wait_until(begun)
        assert not reader.at_eof()
        writer.write_eof()
        await reader.read()
    await settled(served, tmp_path)


async def test_a_chunked_body_that_lies_about_its_chunks_is_refused(served: Served, tmp_path: Path) -> None:
    async with line(served, "Transfer-Encoding: chunked") as (reader, writer):
        writer.write(b"5\r\n" + body_of() + b"\r\n0\r\n\r\n")
        async with asyncio.timeout(30):
            head = await reader.readline()
    assert head.split()[1].startswith(b"4")
    await settled(served, tmp_path)


async def test_a_length_beyond_the_limit_is_refused_before_anything_is_sent(
    served: Served, tmp_path: Path
) -> None:
    headers = (f"Content-Length: {BODY_LIMIT_BYTES + 1}", "Expect: 100-continue")
    async with line(served, *headers) as (reader, _):
        status, told = await answer_on(reader)
    assert (status, told["code"]) == (413, "body_too_large")
    await settled(served, tmp_path)


async def test_a_sender_who_falls_silent_is_let_go(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "STALL_SECONDS", 0.2)
    async with line(served, f"Content-Length: {len(LARGE)}") as (reader, writer):
        writer.write(LARGE[:MEGABYTE])
        status, told = await answer_on(reader)
        assert (status, told["code"]) == (408, "body_stalled")
        assert await reader.read() == b""
    await settled(served, tmp_path)


@pytest.mark.spec("I2")
async def test_a_refusal_comes_while_the_body_is_still_being_sent(served: Served, tmp_path: Path) -> None:
    begun = body_of(*[image()] * 11)[:-80]
    async with line(served, "Content-Length: 70000000") as (reader, writer):
        writer.write(begun)
        status, told = await answer_on(reader)  # the other 70 MB were never sent
        assert (status, told["code"]) == (413, "image_count_exceeded")
        assert incoming(tmp_path) == []
        writer.write(bytes(5 * MEGABYTE))  # and are taken for nothing
        await writer.drain()
    await settled(served, tmp_path)


async def test_a_sender_who_reads_only_at_the_end_gets_the_refusal_too(
    served: Served, tmp_path: Path
) -> None:
    body = body_of(*[image()] * 11) + b" " * (60 * MEGABYTE)
    async with line(served, f"Content-Length: {len(body)}") as (reader, writer):
        for start in range(0, len(body), MEGABYTE):
            writer.write(body[start : start + MEGABYTE])
            await writer.drain()
        status, told = await answer_on(reader)
        assert (status, told["code"]) == (413, "image_count_exceeded")
        assert await reader.read() == b""  # the connection ends in order
    await settled(served, tmp_path)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("more", [(), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect:")])
async def test_curl_shows_a_refusal_of_a_large_body(
    served: Served, tmp_path: Path, more: tuple[str, ...]
) -> None:
    file = tmp_path / "body.json"
    file.write_bytes(body_of(*[image()] * 11) + b" " * (90 * MEGABYTE))
    process = await asyncio.create_subprocess_exec(
        *("curl", "-sS", "--max-time", "60", "-H", f"Content-Type: {JSON['Content-Type']}", *more),
        *("--data-binary", f"@{file}", f"{served.url}/v1/messages"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert json.loads(out)["code"] == ("image_count_exceeded" if "chunked" in str(more) else "body_too_large")
