"""Somebody who receives alerts on loopback, and an alert to send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mediamill.engine.alerts import AlertType, raise_alert
from mediamill.settings import Settings
from tests.engine.conftest import Bench

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Receiver:
    """An HTTP server on the loopback that does what it is told."""

    status: str = "204 No Content"
    headers: str = ""
    body: bytes = b""
    hang: bool = False
    endless: bool = False
    port: int = 0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    written: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append((lines[0], headers, body))
            if self.hang:
                await reader.read()
            await self._answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        length = "" if self.endless else f"content-length: {len(self.body)}\r\n"
        writer.write(
            f"HTTP/1.1 {self.status}\r\n{self.headers}{length}connection: close\r\n\r\n".encode() + self.body
        )
        while self.endless:
            writer.write(b"x" * 65536)
            self.written += 65536
            await writer.drain()
        await writer.drain()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=value"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    yield receiver
    server.close()


def settings_for(url: str, **more: Any) -> Settings:
    given: dict[str, Any] = {
        "alert_webhook_url": url,
        "alert_webhook_secret": SECRET,
        "alert_allow_private": True,
        **more,
    }
    return Settings(**given)


async def raise_one(bench: Bench, type_: AlertType = "stale_job_recovered", **data: Any) -> bool:
    engine = replace(bench.engine, alerts_on=True, alert_worker_events=True)
    async with bench.database.transaction() as connection:
        return await raise_alert(connection, engine, type_, data or {"jobs": [1, 2], "worker": "a"})
