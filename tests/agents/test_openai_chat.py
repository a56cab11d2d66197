"""What only the chat does: its settings, its time limit, Retry-After, servers that do not stream."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mediamill.agents.choose import open_agent
from mediamill.agents.contract import (
    AgentBusyError,
    AgentNonsenseError,
    AgentNotSetError,
    AgentRefusedError,
    Image,
    Turn,
    answer_text,
)
from mediamill.agents.fit import fit_history
from mediamill.agents.openai_chat import OpenAiAgent
from mediamill.agents.pi import PiAgent
from mediamill.settings import Settings
from mediamill.testing.model_server import (
    DRIP,
    ELSEWHERE,
    HUGE,
    NONSENSE,
    SILENT,
    WEB_PAGE,
    Act,
    Reply,
    failing,
    rate_limited,
    reply,
)
from mediamill.testing.openai_server import DESCRIPTION, OpenAiServer, chunk, images_in
from tests.agents.conftest import MakeSettings, said


@pytest.mark.spec("I10")
async def test_the_agent_is_chosen_by_setting(make_settings: MakeSettings) -> None:
    assert isinstance(open_agent(make_settings()), OpenAiAgent)
    assert isinstance(open_agent(make_settings(agent="pi")), PiAgent)


@pytest.mark.parametrize("url", [None, "", "nonsense", "ftp://host/v1", "http://user:word@host/v1"])
@pytest.mark.parametrize("name", ["openai", "pi"])
async def test_without_an_address_there_is_no_agent(make_settings: MakeSettings, name: str, url: str) -> None:
    with pytest.raises(AgentNotSetError) as caught:
        open_agent(make_settings(agent=name, openai_url=url))
    assert "MEDIAMILL_OPENAI_URL" in (caught.value.fix or "")


async def test_a_limit_of_rate_tells_when_to_come_back(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    server.then(rate_limited(17))
    with pytest.raises(AgentBusyError) as caught:
        await answer_text(OpenAiAgent(make_settings()).session("t").prompt("hello"))
    assert caught.value.after_seconds == 17


@pytest.mark.parametrize("act", [SILENT, DRIP], ids=["silent", "drip"])
async def test_a_server_that_hangs_is_left_in_time(
    make_settings: MakeSettings, server: OpenAiServer, act: Act
) -> None:
    server.then(act)
    agent = OpenAiAgent(make_settings(model_timeout_seconds=0.3))
    async with asyncio.timeout(30):
        with pytest.raises(AgentBusyError) as caught:
            await answer_text(agent.session("t").prompt("hello"))
    assert "MEDIAMILL_MODEL_TIMEOUT_SECONDS" in (caught.value.fix or "")


async def test_a_server_that_is_not_there_may_come_back(make_settings: MakeSettings) -> None:
    agent = OpenAiAgent(make_settings(openai_url="http://127.0.0.1:9/v1"))
    with pytest.raises(AgentBusyError, match="connection"):
        await answer_text(agent.session("t").prompt("hello"))


async def test_a_server_that_sends_us_elsewhere_is_not_followed(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    server.then(ELSEWHERE)
    with pytest.raises(AgentRefusedError, match="elsewhere"):
        await answer_text(OpenAiAgent(make_settings()).session("t").prompt("hello"))


BAD_EVENT = reply(Reply(b"data: [1, 2]\n\n"))
BAD_CHOICE = reply(Reply(b'data: {"choices": 7}\n\n'))
SAYS_NOTHING = reply(Reply(chunk({}, "stop")))


@pytest.mark.parametrize(
    "act",
    [HUGE, NONSENSE, WEB_PAGE, BAD_EVENT, BAD_CHOICE, SAYS_NOTHING],
    ids=["huge", "no json", "page", "list", "choices", "empty"],
)
async def test_what_is_no_answer_is_an_error(
    make_settings: MakeSettings, server: OpenAiServer, act: Act
) -> None:
    server.then(act)
    with pytest.raises((AgentNonsenseError, AgentBusyError)):
        await answer_text(OpenAiAgent(make_settings()).session("t").prompt("hello"))


async def test_an_error_in_the_midst_of_a_stream_may_pass(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    server.then(reply(Reply(chunk({"content": "half"}) + b'data: {"error": {"message": "overloaded"}}\n\n')))
    with pytest.raises(AgentBusyError, match="overloaded"):
        await answer_text(OpenAiAgent(make_settings()).session("t").prompt("hello"))


async def test_a_refusal_of_the_model_is_final(make_settings: MakeSettings, server: OpenAiServer) -> None:
    server.then(reply(Reply(chunk({}, "content_filter"))))
    with pytest.raises(AgentRefusedError):
        await answer_text(OpenAiAgent(make_settings()).session("t").prompt("hello"))


async def test_a_server_that_does_not_stream_is_understood(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    message = {"role": "assistant", "content": "all at once"}
    server.then(reply(Reply.json({"choices": [{"message": message, "finish_reason": "stop"}]})))
    assert await answer_text(OpenAiAgent(make_settings()).session("t").prompt("hello")) == "all at once"


async def test_the_oldest_turns_are_left_out_when_the_model_cannot_hold_them(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    history = [Turn("user", f"{number} " + "x" * 2000) for number in range(10)]
    agent = OpenAiAgent(make_settings(agent_context_tokens=2000))
    await answer_text(agent.session("t", history).prompt("now"))
    assert [text.split()[0] for _, text in said(server)] == ["8", "9", "now"]


async def test_a_session_that_nobody_holds_is_forgotten(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    agent = OpenAiAgent(make_settings())
    await answer_text(agent.session("t").prompt("one"))
    await answer_text(agent.session("t", [Turn("user", "as the caller has it")]).prompt("two"))
    assert said(server) == [("user", "as the caller has it"), ("user", "two")]


async def test_tokens_are_those_that_the_endpoint_reports(tmp_path: Path) -> None:
    with OpenAiServer() as server:
        agent = OpenAiAgent(Settings(data=tmp_path, openai_url=f"{server.url}/v1"))
        session = agent.session("thread")
        for asked in (1, 2):
            await answer_text(session.prompt("hello"))
            assert session.tokens == asked * server.tokens
        await agent.close()


async def test_an_endpoint_that_knows_no_usage_is_asked_without_it_and_tokens_are_estimated(
    tmp_path: Path,
) -> None:
    with OpenAiServer(with_usage=False) as server:
        agent = OpenAiAgent(Settings(data=tmp_path, openai_url=f"{server.url}/v1"))
        session = agent.session("thread")
        assert await answer_text(session.prompt("hello " * 100)) == DESCRIPTION
        assert session.tokens > 100
        await answer_text(session.prompt("again"))
        assert ["stream_options" in seen.json() for seen in server.seen] == [True, False, False]
        await agent.close()


def past_images(count: int) -> tuple[Image, ...]:
    return tuple(Image("image/png", f"image {number}".encode()) for number in range(count))


@pytest.mark.spec("I14")
async def test_a_follow_up_shows_the_images_of_before(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    session = OpenAiAgent(make_settings()).session("t")
    await answer_text(session.prompt("describe these", past_images(2)))
    await answer_text(session.prompt("which one was taken later?"))
    first, _, last = server.seen[1].json()["messages"]
    assert images_in(first["content"]) == [b"image 0", b"image 1"]
    assert images_in(last["content"]) == []


@pytest.mark.spec("I14")
async def test_a_model_that_sees_no_images_still_answers_in_a_thread_that_had_some(
    make_settings: MakeSettings, server: OpenAiServer
) -> None:
    history = [Turn("user", "describe these", past_images(1)), Turn("assistant", "a dog")]
    session = OpenAiAgent(make_settings()).session("t", history)
    server.then(failing(400, "this model takes no images"))
    assert await answer_text(session.prompt("and its colour?")) == "you said: and its colour?"
    assert [each["content"] for each in server.seen[1].json()["messages"]] == [
        *("describe these", "a dog", "and its colour?")
    ]


@pytest.mark.spec("I14")
@pytest.mark.parametrize(("tokens", "shown"), [(32_000, 7), (100_000, 10), (2_000, 0)])
def test_of_past_images_the_newest_are_shown_that_fit(tokens: int, shown: int) -> None:
    images = past_images(12)
    history = [Turn("user", "old", images[:6]), Turn("assistant", "a"), Turn("user", "new", images[6:])]
    fitted = fit_history(history, "and now?", tokens)
    assert [turn.text for turn in fitted] == ["old", "a", "new"], "texts are not left out for images"
    assert [image for turn in fitted for image in turn.images] == [*images[12 - shown :]]
