"""A server that says what a test gives it, and remembers what it was asked: the other end of a remote worker's line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. The names of headers are in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def verb(self) -> str:
        """The end of the path."""
        return self.path.rpartition("/")[2]

    @property
    def word(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(slots=True)
class Canned:
    """`answers`: status, body and perhaps headers for the next requests, in this order; when they are used up, 204.

    With a `Content-Length` that is more than the body, the line is lost in the middle. `by_verb`: who answers requests
    whose path ends in this word, instead.
    """

    url: str = ""
    answers: list[tuple[Any, ...]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    by_verb: dict[str, Callable[[Asked], Awaitable[tuple[Any, ...]]]] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        except asyncio.IncompleteReadError:  # whoever wanted to ask was stopped
            writer.close()
            return
        method, path, _ = head[0].split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append(Asked(method, path, headers, body))
        status, answer, *more = await self._answer(self.asked[-1])
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        said = {"Connection": "close"} | ({} if status == 204 else {"Content-Length": str(len(data))})
        for given in more:
            said |= given
        lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in said.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + data)
        await writer.drain()
        writer.close()

    async def _answer(self, asked: Asked) -> tuple[Any, ...]:
        if (found := self.by_verb.get(asked.verb)) is not None:
            return await found(asked)
        return self.answers.pop(0) if self.answers else (204, b"")


@asynccontextmanager
async def canned(*answers: tuple[Any, ...]) -> AsyncIterator[Canned]:
    """A server at a free port."""
    found = Canned(answers=list(answers))
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    found.url = f"http://{host}:{port}"
    try:
        yield found
    finally:
        server.close()
