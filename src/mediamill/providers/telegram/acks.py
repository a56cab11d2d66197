"""Acknowledgements of images: one message for an album, edited when more of the album comes.

What it should say is counted in the transaction that saved the images. It is sent at most once: a process that dies
while it is sent leaves it, since it may have arrived, and is missed by nobody.
"""

from __future__ import annotations

import logging
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection, Database
from mediamill.providers.telegram.api import (
    BotApi,
    ConflictToldError,
    TelegramAwayError,
    TelegramRefusedError,
    TokenRefusedError,
)
from mediamill.providers.telegram.send import post_text
from mediamill.providers.telegram.store import queries
from mediamill.providers.telegram.wording import acknowledgement

log = logging.getLogger(__name__)


class Acks:
    """Of one bot with one token; in a chat, one caller at a time."""

    def __init__(self, database: Database, api: BotApi, bot_id: str, account: int) -> None:
        self._database, self._api = database, api
        self._keys: dict[str, Any] = {"bot_id": bot_id, "account": account}

    async def count(
        self,
        connection: Connection,
        chat: str,
        album: str,
        *,
        saved: int = 0,
        refused: int = 0,
        failed: int = 0,
        waiting: int = 0,
        reason: str | None = None,
    ) -> None:
        """One more of this album, in the transaction that took it."""
        figures = {"saved": saved, "refused": refused, "failed": failed, "waiting": waiting, "reason": reason}
        await queries.count_images.run(connection, **self._keys, chat=chat, album=album, **figures)

    async def tell(self, chat: str) -> None:
        """All that are due in this chat. What does not go now goes later."""
        async with self._database.connection() as connection:
            rows = await queries.open_acks.rows(connection, **self._keys, chat=chat)
        for row in rows:
            await self._tell(chat, row)

    async def _tell(self, chat: str, row: Record) -> None:
        words = acknowledgement(row["saved"], row["waiting"], row["refused"], row["failed"], row["reason"])
        try:
            if row["state"] == "sending":
                log.debug("an acknowledgement was on its way when the process died")
                await self._move(chat, row, "told")
            elif row["message_id"] is not None:
                await self._api.call(
                    "editMessageText", chat_id=int(chat), message_id=row["message_id"], text=words
                )
                await self._move(chat, row, "told")
            else:
                await self._move(chat, row, "sending")
                message_id = await post_text(self._api, chat, words)
                await self._move(chat, row, "told", message_id)
        except TelegramRefusedError as error:  # blocked, deleted, or not changed at all
            log.info("an acknowledgement is refused: %s", error.message)
            await self._move(chat, row, "told")
        except (TokenRefusedError, ConflictToldError):
            await self._move(chat, row, "due")
        except TelegramAwayError as error:
            log.info("an acknowledgement waits: %s", error.message)
            is_lost = error.may_be_done and row["message_id"] is None
            await self._move(chat, row, "told" if is_lost else "due")

    async def _move(self, chat: str, row: Record, state: str, message_id: int | None = None) -> None:
        async with self._database.connection() as connection:
            await queries.move_ack.run(
                connection, **self._keys, chat=chat, album=row["album"], state=state, message_id=message_id
            )
