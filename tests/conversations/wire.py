"""A wire between a process and its database that a test can cut: before a commit, after it, or for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

COMMIT = b"COMMIT;\0"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Wire:
    """`commits_to_lose`: that many commits never reach the server; `answers_to_lose`: reach it, but nobody hears.

    With `stays_down`, nobody gets through after the first that is lost.
    """

    server_url: str
    url: str
    commits_to_lose: int = 0
    answers_to_lose: int = 0
    stays_down: bool = False
    is_down: bool = False
    cuts: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _deaf: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        """Every connection ends, and nobody gets through."""
        self.is_down = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        self.is_down = False

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        server = await _connect(self.server_url)
        self._open |= {writer, server[1]}
        try:
            if self.is_down:  # it was cut while this one was on its way
                return
            await asyncio.wait(
                [
                    asyncio.create_task(self._ask(reader, server[1], writer)),
                    asyncio.create_task(self._answer(server[0], writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._open -= {writer, server[1]}
            self._deaf.discard(writer)
            writer.transport.abort()
            server[1].close()

    async def _ask(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65536):
                if COMMIT in chunk and self.commits_to_lose:
                    self.commits_to_lose -= 1
                    self._note_loss()
                    return
                if COMMIT in chunk and self.answers_to_lose:
                    self.answers_to_lose -= 1
                    self._deaf.add(client)
                server.write(chunk)
                await server.drain()

    async def _answer(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65536):
                if client in self._deaf:  # the server has answered, so it has committed
                    self._note_loss()
                    return
                client.write(chunk)
                await client.drain()

    def _note_loss(self) -> None:
        self.cuts += 1
        if self.stays_down:
            self.cut()


async def _connect(url: str) -> Streams:
    host, _, port = urlsplit(url).netloc.rpartition("@")[2].partition(":")
    host = unquote(host)
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, int(port or 5432))


@asynccontextmanager
async def open_wire(server_url: str, folder: Path) -> AsyncIterator[Wire]:
    """The same database, through a wire of the test's own."""
    parts = urlsplit(server_url)
    user = parts.netloc.rpartition("@")[0]
    url = parts._replace(netloc=f"{user}@{quote(str(folder), safe='')}:5432").geturl()
    wire = Wire(server_url, url)
    server = await asyncio.start_unix_server(wire.talk, folder / ".s.PGSQL.5432")
    try:
        yield wire
    finally:
        server.close()
        wire.cut()
