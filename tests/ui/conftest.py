"""A browser, a server, and bots that run on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from mediamill.db.connection import Database
from tests.api.serving import Served, serve
from tests.ui.browser import open_browser
from tests.ui.talking import Talking

expect.set_options(timeout=60_000)  # the usual five seconds are short on a busy machine


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """The system's browser."""
    async with open_browser() as browser:
        yield browser


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server on a fresh database."""
    async with serve(database, tmp_path, ingest_seconds=0.05) as served:
        yield served


@pytest.fixture
async def talking(served: Served) -> AsyncIterator[Talking]:
    """A server that runs bots, and somebody who plays people and workers."""
    keeping = asyncio.create_task(served.keeper.run())
    yield Talking(served)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
