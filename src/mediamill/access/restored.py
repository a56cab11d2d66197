"""After a restore: who was logged in when the backup was made is not any more. What was revoked since is not known."""

from __future__ import annotations

from mediamill.access.store import queries
from mediamill.db.connection import Connection


async def log_everybody_out(connection: Connection) -> None:
    """Every session ends; logging in again shows that the password still holds."""
    await queries.close_all_sessions.run(connection)
