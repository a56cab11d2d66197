"""A folder for benches, which have a PostgreSQL in it that runs as another user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import server_folder


@pytest.fixture
def bench_folder() -> Iterator[Path]:
    with server_folder() as folder:
        yield folder
