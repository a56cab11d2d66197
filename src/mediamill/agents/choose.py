"""The agent that the settings name."""

from __future__ import annotations

from mediamill.agents.contract import Agent
from mediamill.agents.openai_chat import OpenAiAgent
from mediamill.agents.pi import PiAgent
from mediamill.settings import Settings


def open_agent(settings: Settings) -> Agent:
    """Inside a running event loop; whoever opens it closes it. AgentNotSetError if a setting is missing."""
    return PiAgent(settings) if settings.agent == "pi" else OpenAiAgent(settings)
