"""Who answers for bots: an echo, or an agent of the agents' room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from mediamill.agents.choose import Agents
from mediamill.agents.contract import Turn as Said
from mediamill.agents.contract import answer_text
from mediamill.conversations.bots import ReplyConfig
from mediamill.conversations.reply import Answer, Answerer, EchoAnswerer, Turn


class Answerers:
    """One per process, on the agents that all of it shares."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    def of(self, config: ReplyConfig) -> Answerer | None:
        """Who answers for a bot; None: nobody."""
        if config.by == "none":
            return None
        return EchoAnswerer() if config.by == "echo" else _AgentAnswerer(self._agents, config)

    async def close(self) -> None:
        """End all work of agents."""
        await self._agents.close()


class _AgentAnswerer:
    """A setting that is missing is told to the conversation that wanted it, not to the bot's start."""

    def __init__(self, agents: Agents, config: ReplyConfig) -> None:
        self._agents, self._config = agents, config

    async def answer(self, thread: str, history: Sequence[Turn], told: str, message_id: int) -> Answer:
        """See Answerer."""
        del message_id
        agent = self._agents.get(self._config.by, self._config.model)
        pairs = ((Said("user", turn.told), Said("assistant", turn.answer)) for turn in history)
        session = agent.session(thread, list(chain.from_iterable(pairs)), self._config.prompt)
        before = session.tokens
        text = await answer_text(session.prompt(told))
        return Answer(text, session.tokens - before)
