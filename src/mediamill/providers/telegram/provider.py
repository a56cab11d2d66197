"""TelegramProvider: one bot on Telegram."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from mediamill.conversations.provider import BotContext, NotConnectedError
from mediamill.db.connection import LOST
from mediamill.providers.telegram.config import NAME, BadTelegramConfigError
from mediamill.providers.telegram.inbox import Inbox
from mediamill.providers.telegram.parts import House, Parts, put_together
from mediamill.providers.telegram.store import queries

__all__ = ["NAME", "TelegramProvider"]

log = logging.getLogger(__name__)

FORGET_SECONDS = 3_600.0


class TelegramProvider:
    """See Provider. A configuration that is wrong is told when it starts: the bot's other networks go on."""

    def __init__(self, context: BotContext, house: House) -> None:
        self._context, self._database = context, house.database
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: BadTelegramConfigError | None = None
        self._parts: Parts | None = None
        try:
            self._parts = put_together(context, house, self._tell)
        except BadTelegramConfigError as error:
            self._fault = error
        self.answerer = self._parts and self._parts.answerer

    async def start(self) -> None:
        """See Provider. What was begun before is finished first: then nobody can answer it half done."""
        if self._parts is None:
            assert self._fault is not None
            raise self._fault
        await self._tell({"state": "connecting"})
        async with self._database.connection() as connection:
            self._parts.runs.life = await queries.begin_life.value(connection, bot_id=self._context.bot_id)
        await self._parts.taker.resume()
        loops = (
            self._parts.consumer.run(),
            self._parts.poller.run(),
            self._forget_forever(self._parts.inbox),
        )
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> None:
        """See Provider. A webhook stays: Telegram keeps what it cannot bring."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._parts is not None:
            await self._parts.api.close()
        await self._tell({"state": "stopped"})

    async def send(self, recipient: str, text: str, send_id: str) -> str:
        """See Provider."""
        if self._parts is None:
            raise NotConnectedError("the bot is not on Telegram")
        return str(await self._parts.mouth.send(recipient, text, send_id) or send_id)

    def change_quota(self, quota_gb: float) -> None:
        """See Provider."""
        if self._parts is not None:
            self._parts.media.change_quota(quota_gb)

    # --- the webhook's door ---

    @property
    def webhook_secret(self) -> str:
        """What Telegram must show at the door; empty: the door is shut."""
        return self._parts.webhook_secret if self._parts is not None and self._tasks else ""

    async def keep_update(self, update: Mapping[str, Any]) -> None:
        """An update that Telegram brought; in the database when this returns."""
        if self._parts is None:
            raise NotConnectedError("the bot is not on Telegram")
        await self._parts.inbox.keep([update])
        self._parts.consumer.wake()

    # --- what goes on beside ---

    async def _tell(self, status: Mapping[str, Any]) -> None:
        """A database that is away is told at the next change."""
        try:
            await self._context.tell_status(
                {name: value for name, value in status.items() if value is not None}
            )
        except LOST as error:
            log.debug("bot %s: its status cannot be kept: %s", self._context.bot_id, error)

    async def _forget_forever(self, inbox: Inbox) -> None:
        while True:
            try:
                await inbox.forget()
            except LOST as error:
                log.debug("telegram: the database is away: %s", error)
            except Exception:
                log.exception("bot %s: old updates cannot be forgotten", self._context.bot_id)
            await asyncio.sleep(FORGET_SECONDS)
