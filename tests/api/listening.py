"""Listening to the live events of a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.api.serving import Served


class Stream:
    """A client of the live events."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.retry: str | None = None
        self.comments: list[str] = []

    async def next(self) -> dict[str, Any]:
        """The next event."""
        event: dict[str, Any] = {"id": None}
        async with asyncio.timeout(120):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if not line and "data" in event:
                    return event
                if line.startswith(":"):
                    self.comments.append(line)
                elif name == "retry":
                    self.retry = value
                elif line:
                    event[name] = json.loads(value) if name == "data" else value
        raise EOFError

    async def subjects(self, amount: int) -> list[str]:
        return [(await self.next())["data"]["subject"] for _ in range(amount)]


@asynccontextmanager
async def listen(served: Served, last: str | None = None, **params: Any) -> AsyncIterator[Stream]:
    headers = {} if last is None else {"Last-Event-ID": last}
    async with served.client.stream("GET", "/api/events", params=params, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)
