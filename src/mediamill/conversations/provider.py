"""The contract of a chat network: what a provider is given, and what it must do. Its own word for all of it is one call
of `BotQueuesManager.add_message` for each message that comes in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mediamill.conversations.access import Gate
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.bots import ReplyConfig
from mediamill.errors import RetryLaterError


class NotConnectedError(RetryLaterError):
    """The chat network cannot be reached now."""

    code = "not_connected"


@dataclass(frozen=True, slots=True)
class BotContext:
    """What a provider of one bot is given."""

    bot_id: str
    config: Mapping[str, Any]  # the provider's own part of the bot's configuration
    quota_gb: float  # now; see Provider for later changes
    queues: BotQueuesManager
    tell_status: Callable[
        [Mapping[str, Any]], Awaitable[None]
    ]  # kept and shown: {"state": …, "detail": …, "qr": …}
    reply: ReplyConfig  # who answers for the bot
    gate: Gate  # asked before a file of a message is fetched; the queues ask it for every message


class Provider(Protocol):
    """One bot on one chat network. It may have an `answerer` of its own (see Answerer), in place of the bot's.

    One that stages files also has `change_quota(quota_gb)`, called when the storage quota changes while the bot runs.
    """

    async def start(self) -> None:
        """Connect, or begin to; what takes long goes on in the background."""

    async def stop(self) -> None:
        """Disconnect. Nothing is added to the queues after this."""

    async def send(self, recipient: str, text: str, send_id: str) -> str:
        """Send a text; the network's id of it. The same send_id again sends nothing new. NotConnectedError: later."""


class BrokenProvider:
    """Stands in for one that could not be made: it says why, and waits for better days."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def start(self) -> None:
        """See Provider."""
        raise NotConnectedError(self._reason)

    async def stop(self) -> None:
        """See Provider."""

    async def send(self, recipient: str, text: str, send_id: str) -> str:
        """See Provider."""
        del recipient, text, send_id
        raise NotConnectedError(self._reason)


ProviderFactory = Callable[[BotContext], Provider]
