"""A small client of MCP over stdio, as the specification has it, for a real `mediamill mcp`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

LIMIT_SECONDS = 60
MOST_LINE = 1 << 24


class Client:
    """One process, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self.notices: list[dict[str, Any]] = []

    async def send_raw(self, line: bytes) -> None:
        """Whatever it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        await self._process.stdin.drain()

    async def send(self, **message: Any) -> None:
        """One message."""
        await self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        """The next answer; what comes before it without being asked for is kept in `notices`."""
        assert self._process.stdout is not None
        while True:
            async with asyncio.timeout(LIMIT_SECONDS):
                line = await self._process.stdout.readline()
            assert line, "the server has ended"
            message: dict[str, Any] = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if "id" in message:
                return message
            self.notices.append(message)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request and its answer."""
        number = next(self._numbers)
        await self.send(id=number, method=method, params=params)
        answer = await self.hear()
        assert answer["id"] == number
        return answer

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers."""
        answer = await self.ask("tools/call", name=tool, arguments=arguments)
        result: dict[str, Any] = answer["result"]
        return result

    async def told(self, tool: str, **arguments: Any) -> Any:
        """The data that a tool answers."""
        result = await self.call(tool, **arguments)
        assert not result["isError"], result
        return json.loads(result["content"][0]["text"])

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error that a tool answers."""
        result = await self.call(tool, **arguments)
        assert result["isError"], result
        error: dict[str, Any] = json.loads(result["content"][0]["text"])["error"]
        return error

    async def end(self) -> tuple[int, str]:
        """Close its input: the exit code, and all that it logged."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        out, log = await asyncio.wait_for(self._process.communicate(), LIMIT_SECONDS)
        for line in out.splitlines():
            json.loads(line)
        assert self._process.returncode is not None
        return self._process.returncode, log.decode()


@asynccontextmanager
async def started(url: str, data: Path, *words: str) -> AsyncIterator[Client]:
    """A real process, greeted; it is ended with the block."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAMILL_")}
    settings = {"MEDIAMILL_DATABASE_URL": url, "MEDIAMILL_DATA": str(data), "MEDIAMILL_PORT": "0"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mediamill", "mcp", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**others, **settings},
        limit=MOST_LINE,
    )
    try:
        client = Client(process)
        about = {"protocolVersion": "2025-06-18", "capabilities": {}}
        answer = await client.ask("initialize", **about, clientInfo={"name": "test", "version": "1"})
        assert answer["result"]["protocolVersion"] == "2025-06-18"
        await client.send(method="notifications/initialized")
        yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
