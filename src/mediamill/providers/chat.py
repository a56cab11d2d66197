"""A chat for trying out, in browser and terminal: messages come by the HTTP API, answers are read from there."""

from __future__ import annotations

from mediamill.conversations.provider import BotContext

NAME = "chat"


class ChatProvider:
    """There is nothing to connect to: whoever chats reads the conversation itself."""

    def __init__(self, context: BotContext) -> None:
        self._context = context

    async def start(self) -> None:
        """See Provider."""
        await self._context.tell_status({"state": "connected"})

    async def stop(self) -> None:
        """See Provider."""
        await self._context.tell_status({"state": "stopped"})

    async def send(self, recipient: str, text: str, send_id: str) -> str:
        """See Provider. The answer is in the conversation under this id, once."""
        del recipient, text
        return send_id
