"""The statements of inputs, loaded once. Only this folder's files run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

queries = Queries(Path(__file__).parent / "queries.sql")

# The class of the session-level advisory locks by which a process shows that it works on a thread.
THREAD_LOCKS = 0x6D6D03
# The class of the locks, each for one transaction, that give pending images their places one after the other.
SCOPE_LOCKS = 0x6D6D04
CHANNEL = "mediamill_runs"
