"""The agents that the settings, or a bot or run, name: each made when it is first asked for, and shared."""

from __future__ import annotations

import asyncio

from mediamill.agents.contract import Agent
from mediamill.agents.openai_chat import OpenAiAgent
from mediamill.agents.pi import PiAgent
from mediamill.settings import Settings


def open_agent(settings: Settings) -> Agent:
    """Inside a running event loop; whoever opens it closes it. AgentNotSetError if a setting is missing."""
    return PiAgent(settings) if settings.agent == "pi" else OpenAiAgent(settings)


class Agents:
    """One per process: two of a kind would fight over the threads on disk."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._agents: dict[tuple[str, str | None], Agent] = {}

    def get(self, kind: str | None = None, model: str | None = None) -> Agent:
        """The agent of this kind and model; None: as the settings have it. AgentNotSetError if one is missing."""
        choice = (kind or self._settings.agent, model or self._settings.text_model)
        if choice not in self._agents:
            chosen = {"agent": choice[0], "text_model": choice[1]}
            self._agents[choice] = open_agent(self._settings.model_copy(update=chosen))
        return self._agents[choice]

    async def close(self) -> None:
        """End all work of agents."""
        await asyncio.gather(*(agent.close() for agent in self._agents.values()))
        self._agents.clear()
