"""After a restore: nobody is answered a second time.

A backup is older than the moment in which its server was lost. Answers that were due when it was made have most likely
been sent since, and the chat network cannot always tell. They are noted as failed, where a person can ask for them.
"""

from __future__ import annotations

from mediamill.conversations.store import queries
from mediamill.db.connection import Connection

ERROR = "it may have been sent before the restore from a backup; another try sends it"


async def stop_replies(connection: Connection) -> None:
    """Every answer that is due, or would become due for a message that had just come."""
    await queries.stop_open_replies.run(connection, error=ERROR)
    await queries.stop_coming_replies.run(connection, error=ERROR)
