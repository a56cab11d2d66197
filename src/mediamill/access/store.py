"""The statements of access, loaded once. Only this folder's files run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

_FOLDER = Path(__file__).parent

queries = Queries(_FOLDER / "queries.sql", _FOLDER / "login.sql", _FOLDER / "audit.sql")
