"""A gate in front of a server: it can be shut, breaks connections off after so many bytes, and counts what passes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Gate:
    """Forwards TCP to wherever it is told."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.down_bytes = 0  # from the server to whoever came
        self.break_after: int | None = None  # each connection, after so many bytes from the server
        self.break_sent_after: int | None = None  # once, after so many bytes to the server
        self.broken = 0
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Nobody comes through, and whoever is in between is cut off."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        where = urlsplit(self.target)
        self._open.add(writer)
        try:
            there = await asyncio.open_connection(where.hostname, where.port)
            await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer, down=True))
        except OSError:
            writer.transport.abort()
        finally:
            self._open.discard(writer)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool = False
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while chunk := await reader.read(1 << 16):
                passed += len(chunk)
                if down:
                    self.down_bytes += len(chunk)
                    if self.break_after is not None and passed > self.break_after:
                        self.broken += 1
                        break
                elif self.break_sent_after is not None and passed > self.break_sent_after:
                    self.break_sent_after = None
                    self.broken += 1
                    self.cut()
                    break
                writer.write(chunk)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def gate_to(url: str) -> AsyncIterator[Gate]:
    gate = Gate(url)
    await gate.open()
    try:
        yield gate
    finally:
        await gate.shut()
