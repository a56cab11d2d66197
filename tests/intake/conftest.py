"""The ground that tests of intake stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.db.connection import Database
from tests.intake.played import Ground


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    """A fresh database and an empty data folder."""
    return Ground.on(database, tmp_path / "data")
