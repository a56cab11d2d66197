"""Who answers for bots: the real agents against a loopback model server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mediamill.agents.choose import Agents
from mediamill.conversations.answerers import Answerers
from mediamill.conversations.bots import ReplyConfig
from mediamill.conversations.reply import Answer, Turn
from mediamill.errors import GiveUpError
from mediamill.settings import Settings
from mediamill.testing.openai_server import OpenAiServer
from tests.agents.conftest import echo, link_pi, said

PAST = [Turn("my name is Ann", "hello Ann")]


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer(say=echo) as opened:
        yield opened


@pytest.fixture
async def answerers(server: OpenAiServer, tmp_path: Path) -> AsyncIterator[Answerers]:
    made = Answerers(Agents(Settings(data=tmp_path, openai_url=f"{server.url}/v1", text_model="usual")))
    yield made
    await made.close()


@pytest.mark.spec("C10")
async def test_a_model_answers_with_the_bots_prompt_and_its_own_history(
    answerers: Answerers, server: OpenAiServer
) -> None:
    answerer = answerers.of(ReplyConfig(by="openai", prompt="Be brief.", model="special"))
    assert answerer is not None
    answer = await answerer.answer("bot/line/ann", PAST, "who am I?", 1)
    assert answer == Answer("you said: who am I?", server.tokens)
    asked = server.seen[-1].json()
    assert asked["model"] == "special"
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert said(server) == [("user", "my name is Ann"), ("assistant", "hello Ann"), ("user", "who am I?")]


@pytest.mark.spec("C10")
async def test_an_agent_session_answers(server: OpenAiServer, tmp_path: Path) -> None:
    link_pi(tmp_path)
    answerers = Answerers(Agents(Settings(data=tmp_path, openai_url=f"{server.url}/v1", text_model="usual")))
    try:
        answerer = answerers.of(ReplyConfig(by="pi"))
        assert answerer is not None
        answer = await answerer.answer("bot/line/ann", PAST, "who am I?", 1)
        assert answer == Answer("you said: who am I?", server.tokens)
    finally:
        await answerers.close()


async def test_nobody_answers_for_a_bot_that_has_nobody(answerers: Answerers) -> None:
    assert answerers.of(ReplyConfig()) is None


async def test_without_an_address_of_a_model_the_answer_fails_for_good_and_says_what_to_set(
    tmp_path: Path,
) -> None:
    answerers = Answerers(Agents(Settings(data=tmp_path, openai_url=None)))
    answerer = answerers.of(ReplyConfig(by="openai"))
    assert answerer is not None
    with pytest.raises(GiveUpError) as caught:
        await answerer.answer("bot/line/ann", [], "hello", 1)
    assert "MEDIAMILL_OPENAI_URL" in str(caught.value.fix)


async def test_two_bots_may_have_two_models(server: OpenAiServer, tmp_path: Path) -> None:
    link_pi(tmp_path)
    answerers = Answerers(Agents(Settings(data=tmp_path, openai_url=f"{server.url}/v1")))
    try:
        for thread, model in (("a", "one"), ("b", "two"), ("c", "one")):
            answerer = answerers.of(ReplyConfig(by="pi", model=model))
            assert answerer is not None
            assert (await answerer.answer(thread, [], "hello", 1)).text == "you said: hello"
            assert server.seen[-1].json()["model"] == model
    finally:
        await answerers.close()
