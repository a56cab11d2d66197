"""The statements of conversations, loaded once. Only this folder's files run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

queries = Queries(Path(__file__).parent / "queries.sql")

# The class of the session-level advisory locks by which a process shows that it runs a bot.
BOT_LOCKS = 0x6D6D02
