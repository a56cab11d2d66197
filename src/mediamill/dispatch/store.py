"""The statements of dispatch, loaded once."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

queries = Queries(Path(__file__).parent / "queries.sql")

RELAY_LOCKS = 0x6D6D08
