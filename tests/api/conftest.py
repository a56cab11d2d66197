"""The server that most tests talk to: on loopback, with an admin secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from mediamill.db.connection import Database
from tests.api.serving import Served, make_app, serve


@pytest.fixture
def has_pages(request: pytest.FixtureRequest) -> bool:
    """For tests that are marked with it, the server has the pages, too."""
    return request.node.get_closest_marker("pages") is not None


@pytest.fixture
async def served(database: Database, tmp_path: Path, has_pages: bool) -> AsyncIterator[Served]:
    """A server on a fresh database."""
    async with serve(database, tmp_path, pages=has_pages) as served:
        yield served


@pytest.fixture
def public(database: Database, tmp_path: Path, has_pages: bool) -> FastAPI:
    """A server that would listen on all addresses."""
    return make_app(database, tmp_path, host="0.0.0.0", pages=has_pages)


@pytest.fixture
async def stranger(public: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody from elsewhere."""
    transport = httpx.ASGITransport(public)
    async with httpx.AsyncClient(transport=transport, base_url="http://mill.example") as client:
        yield client
