"""The ground that tests of search stand on."""

from __future__ import annotations

import pytest

from mediamill.db.connection import Database
from tests.search.ground import Ground


@pytest.fixture
def ground(database: Database) -> Ground:
    """A fresh database."""
    return Ground(database)
