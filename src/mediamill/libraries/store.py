"""The statements of libraries, loaded once. Only this folder's files run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

queries = Queries(*sorted(Path(__file__).parent.glob("*.sql")))
