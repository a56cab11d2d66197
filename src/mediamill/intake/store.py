"""The statements of intake, loaded once. Only this folder's files run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

_FOLDER = Path(__file__).parent

queries = Queries(
    _FOLDER / "queries.sql", _FOLDER / "proposals.sql", _FOLDER / "findings.sql", _FOLDER / "watch.sql"
)
