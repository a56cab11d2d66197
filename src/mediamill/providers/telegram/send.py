"""Sending: Telegram takes the same message twice, so every part that it has confirmed is noted and never sent again.

A part that was on its way when the process died is sent again: a lost answer is worse than one that comes twice.
"""

from __future__ import annotations

import logging

from mediamill.db.connection import Database
from mediamill.providers.telegram.api import BotApi, TelegramAwayError
from mediamill.providers.telegram.split import split_text
from mediamill.providers.telegram.store import queries

log = logging.getLogger(__name__)


class Sender:
    """Of one bot."""

    def __init__(self, database: Database, api: BotApi, bot_id: str) -> None:
        self._database, self._api, self._bot_id = database, api, bot_id

    async def send(self, chat: str, text: str, send_id: str) -> int:
        """All parts, in order, each once; Telegram's id of the first."""
        async with self._database.connection() as connection:
            rows = await queries.sent_parts.rows(connection, bot_id=self._bot_id, send_id=send_id)
        sent = {row["part"]: row["message_id"] for row in rows}
        for part, piece in enumerate(split_text(text)):
            if part not in sent:
                sent[part] = await post_text(self._api, chat, piece)
                await self._note(send_id, part, sent[part])
        return int(sent.get(0, 0))

    async def _note(self, send_id: str, part: int, message_id: int) -> None:
        async with self._database.connection() as connection:
            await queries.note_sent.run(
                connection, bot_id=self._bot_id, send_id=send_id, part=part, message_id=message_id
            )


async def post_text(api: BotApi, chat: str, text: str) -> int:
    """One message; Telegram's id of it. The text is sent as it is: what looks like markup stays so."""
    quiet = {"is_disabled": True}  # the preview of an address would have it fetched by Telegram
    message = await api.call("sendMessage", chat_id=int(chat), text=text, link_preview_options=quiet)
    return message_id_of(message)


def message_id_of(message: object) -> int:
    """Of Telegram's answer to a send."""
    found = message.get("message_id") if isinstance(message, dict) else None
    if not isinstance(found, int):
        raise TelegramAwayError("Telegram's answer is not a message", may_be_done=True)
    return found
