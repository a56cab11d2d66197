"""A server on loopback, and both clients as one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.client import AsyncClient, Client, RunEvent
from mediamill.client import plans as plans_module
from tests.client.loopback import Loopback, serve_loopback

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(100))
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(101))


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with serve_loopback() as loopback:
        yield loopback


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pauses are short."""
    monkeypatch.setattr(plans_module, "FIRST_PAUSE_SECONDS", 0.01)


class Either:
    """One of the two clients, called in one way."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client

    async def __call__(self, name: str, *args: Any, **more: Any) -> Any:
        result = getattr(self.client, name)(*args, **more)
        return await result if isinstance(self.client, AsyncClient) else result

    async def events(self, run_id: str) -> list[RunEvent]:
        if isinstance(self.client, AsyncClient):
            return [event async for event in self.client.stream(run_id)]
        return list(self.client.stream(run_id))


@pytest.fixture(params=[Client, AsyncClient])
async def client(request: pytest.FixtureRequest, loopback: Loopback) -> AsyncIterator[Either]:
    made = request.param(loopback.url, "a token", patience=5)
    yield Either(made)
    await made.close() if isinstance(made, AsyncClient) else made.close()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two images."""
    paths = [tmp_path / "a é.png", tmp_path / "b.jpg"]
    for path, content in zip(paths, (PNG, JPEG), strict=True):
        path.write_bytes(content)
    return paths
