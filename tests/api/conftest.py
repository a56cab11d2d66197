"""The server that most tests talk to: on loopback, with an admin secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from tests.api.serving import Served, serve


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server on a fresh database."""
    async with serve(database, tmp_path) as served:
        yield served
