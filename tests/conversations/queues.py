"""The queues of a bot: made anew, or taken from a keeper, and their placeholders."""

from __future__ import annotations

from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.records import DatabaseRecords
from mediamill.db.connection import Database
from tests.conversations.conftest import Ground


def manager(ground: Ground, database: Database | None = None) -> BotQueuesManager:
    """The queues of a bot in a new life, with nothing in memory."""
    kept = DatabaseRecords(database or ground.database, ground.enqueuer, "bot", "line")
    return BotQueuesManager("bot", "line", kept)


def placeholders(queues: BotQueuesManager) -> list[str | None]:
    return [message.media_processing_id for _, message in queues.placeholders()]


def queues_of(keeper: BotKeeper, bot_id: str = "bot") -> BotQueuesManager:
    return keeper.get(bot_id).queues["line"]
