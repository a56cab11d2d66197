"""What every test of backups begins with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backup.ground import Ground, empty_url, fill


@pytest.fixture
async def ground(new_url: str, tmp_path: Path) -> Ground:
    """Files at rest, one row."""
    fill(tmp_path / "data")
    ground = Ground(new_url, tmp_path / "data", tmp_path / "backups")
    await ground.note("row 1")
    return ground


@pytest.fixture
async def empty(server_url: str) -> AsyncIterator[str]:
    """An empty database to restore into."""
    async with empty_url(server_url) as url:
        yield url
