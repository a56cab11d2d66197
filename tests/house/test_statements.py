"""What aiosql thinks of our statements."""

from __future__ import annotations

import logging
from pathlib import Path

import aiosql
import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src" / "mediamill"


def test_aiosql_warns_of_no_statement(caplog: pytest.LogCaptureFixture) -> None:
    """It warns at run time, into the middle of log lines that scripts read."""
    with caplog.at_level(logging.WARNING):
        for path in sorted(SOURCES.rglob("*.sql")):
            aiosql.from_path(path, "asyncpg", mandatory_parameters=False)
    assert caplog.messages == []
