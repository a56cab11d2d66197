"""A chat server on this machine, the pi that set-up installed, and agents that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.agents.contract import Agent
from mediamill.agents.openai_chat import OpenAiAgent
from mediamill.agents.pi import PiAgent
from mediamill.agents.pi_setup import PiProgram, install_pi
from mediamill.settings import Settings
from mediamill.testing.openai_server import OpenAiServer, images_in

PI_DATA = Path(__file__).resolve().parents[2] / ".tools" / "pi"
KEY = "sk-test-of-the-endpoint"

MakePi = Callable[..., PiAgent]
MakeSettings = Callable[..., Settings]


def text_of(message: Any) -> str:
    """The text of a message, be it plain or in parts."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def echo(messages: list[Any]) -> str:
    """The model of the tests: it says what was said last."""
    return f"you said: {text_of(messages[-1]).strip()}"


def said(server: OpenAiServer, number: int = -1) -> list[tuple[str, str]]:
    """The conversation that the model was shown with one of the requests, without the instructions."""
    messages = server.seen[number].json()["messages"]
    return [(each["role"], text_of(each).strip()) for each in messages if each["role"] != "system"]


def images_of(server: OpenAiServer, number: int = -1) -> list[bytes]:
    """All images that the model was shown with one of the requests, in their order."""
    messages = server.seen[number].json()["messages"]
    return [image for message in messages for image in images_in(message["content"])]


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer(say=echo) as opened:
        yield opened


def _refuse_to_install(_: str) -> None:
    pytest.fail("pi is not installed: make .tools/.stamp-pi")


def installed_pi() -> PiProgram:
    """From set-up: nothing is fetched while tests run."""
    return install_pi(Settings(data=PI_DATA), _refuse_to_install)


def link_pi(data: Path) -> None:
    """Into a data folder, so that a server there finds it installed."""
    installed_pi()
    (data / "tools").symlink_to(PI_DATA / "tools")


@pytest.fixture(scope="session")
def pi_program() -> PiProgram:
    return installed_pi()


@pytest.fixture
def make_settings(server: OpenAiServer, tmp_path: Path) -> MakeSettings:
    def make(**more: Any) -> Settings:
        usual = {
            "data": tmp_path,
            "openai_url": f"{server.url}/v1",
            "openai_key": KEY,
            "text_model": "test-model",
        }
        return Settings(**{**usual, **more})

    return make


@pytest.fixture
async def make_pi(make_settings: MakeSettings, pi_program: PiProgram) -> AsyncIterator[MakePi]:
    made: list[PiAgent] = []

    def make(**more: Any) -> PiAgent:
        made.append(PiAgent(make_settings(**more), pi_program))
        return made[-1]

    yield make
    for agent in made:
        await agent.close()


@pytest.fixture(params=["openai", "pi"])
async def agent(
    request: pytest.FixtureRequest, make_settings: MakeSettings, make_pi: MakePi
) -> AsyncIterator[Agent]:
    opened: Agent = make_pi() if request.param == "pi" else OpenAiAgent(make_settings())
    yield opened
    await opened.close()
