"""Who the bot is on Telegram, and whether a message in a group is meant for it."""

from __future__ import annotations

import asyncio

from mediamill.providers.telegram.update import Incoming


class Identity:
    """Of one bot. Its id stands in the token; its user name is known once Telegram has been asked."""

    def __init__(self, account: int) -> None:
        self._account = account
        self._username = ""
        self._known = asyncio.Event()

    def learn(self, username: str) -> None:
        """What Telegram says."""
        self._username = username.casefold()
        self._known.set()

    async def is_addressed(self, message: Incoming) -> bool:
        """In a private chat always; in a group if the bot is mentioned, given a command by name, or replied to."""
        if not message.is_group or self._account in message.mentioned_ids:
            return True
        if not message.mentioned_names:
            return False
        await self._known.wait()
        return self._username in message.mentioned_names
