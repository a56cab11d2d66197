"""The statements of conversations, loaded once. Only this folder's files run them."""

from __future__ import annotations

from pathlib import Path

from mediamill.db.queries import Queries

_FOLDER = Path(__file__).parent
queries = Queries(_FOLDER / "queries.sql", _FOLDER / "senders.sql")

# The class of the session-level advisory locks by which a process shows that it runs a bot.
BOT_LOCKS = 0x6D6D02
