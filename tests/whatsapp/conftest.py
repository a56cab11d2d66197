from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from tests.whatsapp.knocking import Knocking, knocking_at


@pytest.fixture
async def knocking(database: Database, tmp_path: Path) -> AsyncIterator[Knocking]:
    """A server with the bot `bot` running."""
    async with knocking_at(database, tmp_path) as made:
        await made.create()
        yield made
