"""What every agent does, whichever it is."""

from __future__ import annotations

import asyncio
import base64
import threading
from contextlib import aclosing

import pytest

from mediamill.agents.contract import (
    Agent,
    AgentBusyError,
    AgentRefusedError,
    AnswerTooLongError,
    Image,
    Turn,
    answer_text,
)
from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.testing.model_server import BROKEN, failing, rate_limited
from mediamill.testing.openai_server import OpenAiServer, cut_stream, endless_stream, held_stream
from tests.agents.asking import PNG, requests
from tests.agents.conftest import KEY, said


@pytest.mark.spec("I10")
async def test_an_answer_streams_as_the_model_writes_it(agent: Agent, server: OpenAiServer) -> None:
    go_on = threading.Event()
    server.then(held_stream("first ", "second", go_on))
    async with aclosing(agent.session("t").prompt("hello")) as answer:
        assert await anext(answer) == "first "
        go_on.set()
        assert [piece async for piece in answer] == ["second"]


@pytest.mark.spec("I10")
async def test_a_session_knows_what_was_said_before(agent: Agent, server: OpenAiServer) -> None:
    session = agent.session("t")
    assert await answer_text(session.prompt("one")) == "you said: one"
    assert await answer_text(session.follow_up("two")) == "you said: two"
    assert said(server) == [("user", "one"), ("assistant", "you said: one"), ("user", "two")]


async def test_a_history_that_is_given_is_where_the_conversation_begins(
    agent: Agent, server: OpenAiServer
) -> None:
    history = [Turn("user", "I am Ann"), Turn("assistant", "Hello Ann")]
    await answer_text(agent.session("t", history).prompt("who am I?"))
    assert said(server) == [("user", "I am Ann"), ("assistant", "Hello Ann"), ("user", "who am I?")]


async def test_instructions_are_the_system_message(agent: Agent, server: OpenAiServer) -> None:
    await answer_text(agent.session("t", instructions="Answer like a pirate.").prompt("hello"))
    system = server.seen[0].json()["messages"][0]
    assert system["role"] == "system"
    assert "Answer like a pirate." in str(system["content"])


@pytest.mark.spec("I10")
async def test_images_reach_the_model_in_their_order(agent: Agent, server: OpenAiServer) -> None:
    other = PNG + b"\0"  # readers stop at the end of the image
    await answer_text(agent.session("t").prompt("look", [Image("image/png", PNG), Image("image/png", other)]))
    parts = server.seen[0].json()["messages"][-1]["content"]
    shown = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert shown == [f"data:image/png;base64,{base64.b64encode(each).decode()}" for each in (PNG, other)]


@pytest.mark.spec("I10")
async def test_what_is_asked_in_one_thread_at_once_is_answered_in_order(
    agent: Agent, server: OpenAiServer
) -> None:
    session = agent.session("t")
    asked = [f"question {number}" for number in range(4)]
    answers = await asyncio.gather(*(answer_text(session.prompt(text)) for text in asked))
    assert answers == [f"you said: {text}" for text in asked]
    assert [text for role, text in said(server) if role == "user"] == asked


@pytest.mark.spec("I10")
async def test_a_short_question_does_not_overtake_a_large_one(agent: Agent, server: OpenAiServer) -> None:
    session = agent.session("t")
    large = Image("image/png", PNG + bytes(2_000_000))
    await asyncio.gather(answer_text(session.prompt("large", [large])), answer_text(session.prompt("short")))
    assert [text for role, text in said(server) if role == "user"] == ["large", "short"]


@pytest.mark.spec("I10")
async def test_threads_are_answered_side_by_side_and_know_nothing_of_each_other(
    agent: Agent, server: OpenAiServer
) -> None:
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on), held_stream("a ", "b", go_on))
    both = asyncio.gather(*(answer_text(agent.session(key).prompt(key)) for key in ("ann", "bob")))
    await requests(server, 2, both)  # the second is asked while the first is not answered
    go_on.set()
    assert await both == ["a b", "a b"]
    assert sorted(said(server, number)[0][1] for number in (0, 1)) == ["ann", "bob"]
    assert {len(said(server, number)) for number in (0, 1)} == {1}


async def test_who_asks_for_the_same_thread_meanwhile_waits_and_knows_the_answer_before(
    agent: Agent, server: OpenAiServer
) -> None:
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on))
    first = asyncio.create_task(answer_text(agent.session("t").prompt("one")))
    await requests(server, 1, first)
    second = asyncio.create_task(answer_text(agent.session("t").prompt("two")))
    go_on.set()
    assert [await first, await second] == ["a b", "you said: two"]
    assert said(server) == [("user", "one"), ("assistant", "a b"), ("user", "two")]


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_what_will_not_pass_is_given_up_with_a_fix(
    agent: Agent, server: OpenAiServer, status: int
) -> None:
    server.always(failing(status, f"no such thing, {KEY}"))
    with pytest.raises(AgentRefusedError) as caught:
        await answer_text(agent.session("t").prompt("hello"))
    assert isinstance(caught.value, GiveUpError)
    assert str(status) in caught.value.message
    assert "MEDIAMILL_OPENAI" in (caught.value.fix or "")
    assert KEY not in caught.value.message


@pytest.mark.parametrize("act", [BROKEN, failing(503), rate_limited()], ids=["500", "503", "429"])
async def test_what_may_pass_can_be_tried_later(agent: Agent, server: OpenAiServer, act: object) -> None:
    server.always(act)  # type: ignore[arg-type]
    with pytest.raises(AgentBusyError) as caught:
        await answer_text(agent.session("t").prompt("hello"))
    assert isinstance(caught.value, RetryLaterError)


async def test_a_conversation_too_long_for_the_model_says_so(agent: Agent, server: OpenAiServer) -> None:
    server.always(failing(400, "This model's maximum context length is 8 tokens"))
    with pytest.raises(AgentRefusedError) as caught:
        await answer_text(agent.session("t").prompt("hello"))
    assert "MEDIAMILL_AGENT_CONTEXT_TOKENS" in (caught.value.fix or "")


@pytest.mark.spec("I10")
async def test_a_failed_question_leaves_no_trace_in_the_conversation(
    agent: Agent, server: OpenAiServer
) -> None:
    session = agent.session("t")
    await answer_text(session.prompt("one"))
    server.then(failing(400, "bad image"))
    with pytest.raises(AgentRefusedError):
        await answer_text(session.prompt("poison", [Image("image/png", PNG)]))
    await answer_text(session.prompt("two"))
    assert said(server) == [("user", "one"), ("assistant", "you said: one"), ("user", "two")]


@pytest.mark.parametrize("reset", [False, True], ids=["ended", "reset"])
async def test_an_answer_that_is_cut_off_is_no_answer(
    agent: Agent, server: OpenAiServer, reset: bool
) -> None:
    session = agent.session("t")
    server.always(cut_stream("half of ", reset=reset))
    with pytest.raises(AgentBusyError):
        await answer_text(session.prompt("one"))


async def test_an_answer_without_end_is_ended(agent: Agent, server: OpenAiServer) -> None:
    server.then(endless_stream())
    with pytest.raises(AnswerTooLongError):
        await answer_text(agent.session("t").prompt("one"))
    assert await answer_text(agent.session("t").prompt("two")) == "you said: two"
    assert said(server) == [("user", "two")]


@pytest.mark.spec("I10")
async def test_an_answer_that_nobody_wants_any_more_is_ended_and_forgotten(
    agent: Agent, server: OpenAiServer
) -> None:
    session = agent.session("t")
    server.then(held_stream("half of ", "it", threading.Event()))
    async with aclosing(session.prompt("one")) as answer:
        assert await anext(answer) == "half of "
    assert await answer_text(session.prompt("two")) == "you said: two"
    assert said(server) == [("user", "two")]


async def test_what_a_model_thinks_aloud_is_not_part_of_the_answer(
    agent: Agent, server: OpenAiServer
) -> None:
    server.say = lambda _: "<think>they want\na number</think>\n\nIt is 4."
    assert await answer_text(agent.session("t").prompt("2 + 2?")) == "It is 4."


async def test_steering_where_nothing_runs_is_a_question(agent: Agent, server: OpenAiServer) -> None:
    assert await answer_text(agent.session("t").steer("hello")) == "you said: hello"


async def test_separators_of_lines_in_a_text_are_text(agent: Agent) -> None:
    text = "a\u2028b\u2029c\x85d\ne"
    assert await answer_text(agent.session("t").prompt(text)) == f"you said: {text}"
