"""The statements of storage, loaded once. Only this folder's files run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

queries = Queries(Path(__file__).parent / "queries.sql")
