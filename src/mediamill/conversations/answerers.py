"""Who answers for bots: an echo, or an agent of the agents' room, made when it is first asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain

from mediamill.agents.choose import open_agent
from mediamill.agents.contract import Agent, answer_text
from mediamill.agents.contract import Turn as Said
from mediamill.conversations.bots import ReplyConfig
from mediamill.conversations.reply import Answerer, EchoAnswerer, Turn
from mediamill.settings import Settings

Choice = tuple[str, str | None]  # the sort of agent, and its model


class Answerers:
    """One per process; bots with the same agent and model share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._agents: dict[Choice, Agent] = {}

    def of(self, config: ReplyConfig) -> Answerer | None:
        """Who answers for a bot; None: nobody."""
        if config.by == "none":
            return None
        return EchoAnswerer() if config.by == "echo" else _AgentAnswerer(self, config)

    def agent(self, choice: Choice) -> Agent:
        """An agent; a setting that is missing is told to the conversation that wanted it, not to the bot's start."""
        if choice not in self._agents:
            kind, model = choice
            chosen = {"agent": kind, "text_model": model or self._settings.text_model}
            self._agents[choice] = open_agent(self._settings.model_copy(update=chosen))
        return self._agents[choice]

    async def close(self) -> None:
        """End all work of agents."""
        await asyncio.gather(*(agent.close() for agent in self._agents.values()))
        self._agents.clear()


class _AgentAnswerer:
    def __init__(self, answerers: Answerers, config: ReplyConfig) -> None:
        self._answerers, self._config = answerers, config

    async def answer(self, thread: str, history: Sequence[Turn], told: str) -> str:
        """See Answerer."""
        agent = self._answerers.agent((self._config.by, self._config.model))
        pairs = ((Said("user", turn.told), Said("assistant", turn.answer)) for turn in history)
        session = agent.session(thread, list(chain.from_iterable(pairs)), self._config.prompt)
        return await answer_text(session.prompt(told))
