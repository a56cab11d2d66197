"""How updates come: asked for, or brought to our door. Both are in the database before Telegram hears of it.

Asking for more is what tells Telegram that we have the last ones (`offset`), so that is done after the commit, once. It
is not said again: after a week of silence Telegram counts from another number, which an old offset would throw away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mediamill.conversations.provider import NotConnectedError
from mediamill.db.connection import LOST
from mediamill.errors import MediamillError
from mediamill.providers.telegram.api import (
    BotApi,
    ConflictToldError,
    TelegramAwayError,
    TelegramRefusedError,
    TokenRefusedError,
)
from mediamill.providers.telegram.identity import Identity
from mediamill.providers.telegram.inbox import Inbox
from mediamill.providers.telegram.update import ALLOWED_UPDATES

log = logging.getLogger(__name__)

BATCH = 100
POLL_SECONDS = 50
MORE_SECONDS = 15.0  # for the way there and back
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
EMPTY_SECONDS = (
    1.0  # between questions that bring nothing new: a Bot API may not wait for updates as Telegram does
)
REFUSED_SECONDS = 60.0
CHECK_WEBHOOK_SECONDS = 300.0

Tell = Callable[[dict[str, Any]], Awaitable[None]]


class Poller:
    """Of one bot. `webhook`: the address and its secret, if Telegram shall come to us."""

    def __init__(
        self,
        api: BotApi,
        inbox: Inbox,
        tell: Tell,
        wake: Callable[[], None],
        webhook: tuple[str, str] | None,
        identity: Identity,
    ) -> None:
        self._api, self._inbox, self._tell, self._wake, self._webhook = api, inbox, tell, wake, webhook
        self._identity = identity
        self._me: dict[str, Any] = {}
        self._offset: int | None = None
        self._pause = FIRST_PAUSE_SECONDS
        self._is_connected = False

    async def run(self) -> None:
        """Until cancelled; nothing that Telegram or the network does ends it."""
        while True:
            try:
                await self._connect()
                while True:
                    await (self._watch_webhook() if self._webhook else self._poll())
                    self._pause = FIRST_PAUSE_SECONDS
            except Exception as error:
                self._is_connected = False
                await self._tell(self._state_of(error))
                await asyncio.sleep(self._pause_after(error))

    async def _connect(self) -> None:
        """Who we are; and no other way of getting updates than ours."""
        me = await self._api.call("getMe")
        if isinstance(me, dict):
            self._me = {
                "identifier": f"@{me.get('username')}",
                "display_name": str(me.get("first_name"))[:255],
            }
            self._identity.learn(str(me.get("username") or ""))
        if self._webhook is None:
            await self._api.call("deleteWebhook", drop_pending_updates=False)
        else:
            url, secret = self._webhook
            await self._api.call(
                "setWebhook",
                url=url,
                secret_token=secret,
                allowed_updates=ALLOWED_UPDATES,
                max_connections=40,
            )
            await self._tell({"state": "connected", "me": self._me, "mode": "webhook"})

    async def _poll(self) -> None:
        """The first time without waiting: then it is known that we may."""
        timeout, asked_at = POLL_SECONDS if self._is_connected else 0, time.monotonic()
        confirmed = self._offset
        updates = await self._api.call(
            "getUpdates",
            seconds=timeout + MORE_SECONDS,
            offset=confirmed,
            limit=BATCH,
            timeout=timeout,
            allowed_updates=ALLOWED_UPDATES,
        )
        if not isinstance(updates, list):
            raise TelegramAwayError("Telegram's answer is not a list of updates")
        self._offset = None
        if not self._is_connected:
            self._is_connected = True
            await self._tell({"state": "connected", "me": self._me, "mode": "polling"})
        new = await self._keep(updates) if updates else 0
        told_again = not updates or confirmed is not None  # what was kept before a crash is confirmed at once
        if timeout and not new and told_again:
            await asyncio.sleep(asked_at + EMPTY_SECONDS - time.monotonic())

    async def _keep(self, updates: list[Any]) -> int:
        """In the database, then to be acknowledged. How many are new."""
        new = await self._inbox.keep(updates)
        self._wake()
        numbers = [update.get("update_id") for update in updates if isinstance(update, dict)]
        self._offset = max((number for number in numbers if isinstance(number, int)), default=-1) + 1
        return new

    async def _watch_webhook(self) -> None:
        """What Telegram says of our door now and then."""
        told = await self._api.call("getWebhookInfo")
        found = told if isinstance(told, dict) else {}
        if self._webhook is not None and found.get("url") != self._webhook[0]:
            raise ConflictToldError("another program has set or deleted the webhook of this bot")
        fault = found.get("last_error_message")
        detail = f"Telegram could not reach the webhook: {fault}"[:300] if fault else None
        await self._tell({"state": "connected", "me": self._me, "mode": "webhook", "detail": detail})
        await asyncio.sleep(CHECK_WEBHOOK_SECONDS)

    def _state_of(self, error: Exception) -> dict[str, Any]:
        if isinstance(error, TokenRefusedError):
            state, detail = "token_refused", f"{error.message} {error.fix}"
        elif isinstance(error, ConflictToldError):
            state = "conflict"
            detail = f"{error.message}. Stop the other program, or give this bot a token of its own"
        elif isinstance(error, TelegramRefusedError):
            state, detail = "failed", error.message
        elif isinstance(error, NotConnectedError):
            state, detail = "connecting", error.message
        elif isinstance(error, LOST):
            state, detail = "connecting", "the database is away"
        else:
            log.error("the updates of a Telegram bot cannot be had", exc_info=error)
            detail = error.message if isinstance(error, MediamillError) else "the server failed; see its log"
            state = "failed"
        return {"state": state, "me": self._me or None, "detail": detail}

    def _pause_after(self, error: Exception) -> float:
        if isinstance(error, TokenRefusedError | TelegramRefusedError):
            return REFUSED_SECONDS
        after = error.after_seconds if isinstance(error, TelegramAwayError) else None
        self._pause, pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS), self._pause
        return max(pause, after or 0.0)
