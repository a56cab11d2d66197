"""The statements of uploads, loaded once. Only the files of uploads run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

queries = Queries(Path(__file__).parent / "uploads.sql")
