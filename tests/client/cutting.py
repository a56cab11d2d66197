"""A line to a server that breaks where a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class CuttingLine:
    """Hands everything on. `cuts`: of the next connections, after how many bytes from the client each breaks."""

    port: int
    url: str = ""
    cuts: list[int] = field(default_factory=list)
    mute: bool = False  # what the server says does not come through
    mute_after: int | None = None  # the same, once so much has come from the client
    refuses: bytes | None = None  # a request that begins so does not come through
    stops_at: int | None = None  # of all connections together: nothing more is handed on until `go_on`
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    passed: int = 0
    connections: int = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left = self.cuts.pop(0) if self.cuts else None
        try:
            there, to_server = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.transport.abort()
            return
        back = asyncio.create_task(self._hand_back(there, writer))
        try:
            while data := await reader.read(65536):
                if self.refuses is not None and data.startswith(self.refuses):
                    writer.transport.abort()
                    break
                to_server.write(data if left is None else data[:left])
                await to_server.drain()
                self.passed += len(data)
                if self.stops_at is not None and self.passed >= self.stops_at:
                    await self.go_on.wait()
                if left is not None and (left := left - len(data)) <= 0:
                    break
        except OSError:
            pass
        to_server.close()
        if left is not None:
            writer.transport.abort()
        await asyncio.gather(back, return_exceptions=True)
        writer.close()

    async def _hand_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.mute or (self.mute_after is not None and self.passed >= self.mute_after):
                writer.transport.abort()
                return
            writer.write(data)
            await writer.drain()
        writer.close()  # the server has gone


@asynccontextmanager
async def cutting_line(url: str) -> AsyncIterator[CuttingLine]:
    line = CuttingLine(int(url.rpartition(":")[2]))
    server = await asyncio.start_server(line.take, "127.0.0.1", 0)
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield line
