"""Another try, asked for by a person: for media that could not be processed, and for an answer that failed."""

from __future__ import annotations

from mediamill.conversations.store import queries
from mediamill.conversations.watch import list_messages
from mediamill.db.connection import Connection
from mediamill.engine.dead import retry_job
from mediamill.engine.rules import Engine
from mediamill.errors import ConflictError, NotFoundError


class NothingToRetryError(ConflictError):
    """Nothing of this message failed."""

    code = "nothing_to_retry"


async def retry_message(
    connection: Connection,
    engine: Engine,
    bot_id: str,
    provider_name: str,
    correspondent_id: str,
    message_id: int,
) -> str:
    """What is tried again, `media` or `reply`. The new text takes the place of the notice; it is not answered."""
    keys = {"bot_id": bot_id, "provider_name": provider_name, "correspondent_id": correspondent_id}
    found = await list_messages(connection, **keys, before=message_id + 1, after=message_id - 1, amount=1)
    if not found:
        raise NotFoundError(f"there is no message {message_id} in this conversation")
    media = found[0]["media"]
    if media and media["can_retry"]:
        await retry_job(connection, engine, media["job_id"])
        return "media"
    if await queries.redo_reply.row(connection, **keys, message_id=message_id) is not None:
        return "reply"
    raise NothingToRetryError(
        fix="what failed may have been purged, or its file not kept any longer; ask for the file to be sent again"
    )
