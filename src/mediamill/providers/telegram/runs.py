"""From Telegram to the agent: whose images wait together, and the run that a text makes, once."""

from __future__ import annotations

from mediamill.conversations.bots import ReplyConfig
from mediamill.db.connection import Connection
from mediamill.inputs.accept import accept_run
from mediamill.inputs.model import AgentChoice, NewRun, Run, Scope
from mediamill.providers.telegram.config import NAME

AGENTS = ("openai", "pi")


class Runs:
    """Of one bot in one life of it."""

    def __init__(self, bot_id: str, reply: ReplyConfig) -> None:
        self._bot_id, self._reply = bot_id, reply
        self.life = ""

    @property
    def by_agent(self) -> bool:
        """Does an agent answer for the bot?"""
        return self._reply.by in AGENTS

    @property
    def is_answered(self) -> bool:
        """Is somebody there who answers?"""
        return self._reply.by != "none"

    def scope(self, chat: str, user: str | None) -> Scope:
        """Images of one person in one chat wait together."""
        return Scope(NAME, f"{self._bot_id}/{NAME}/{chat}", user)

    async def make(
        self,
        connection: Connection,
        scope: Scope,
        text: str,
        message_id: int,
        *,
        start_after_seconds: float = 0,
    ) -> Run:
        """The run of this message of ours, with the images that wait; the same again if it is there already."""
        new = NewRun(
            scope,
            text,
            idempotency_key=f"{scope.thread_key}#{message_id}@{self.life}",
            agent=AgentChoice(self._reply.by, self._reply.model, self._reply.prompt),
            start_after_seconds=start_after_seconds,
        )
        return (await accept_run(connection, new, claim_pending=True)).run
