"""Images and the real pi: they arrive as they were sent, in prompts and in what is said into a run, or it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
from typing import Any

import pytest

from mediamill.agents.contract import Agent, AgentBusyError, AgentRefusedError, Image, answer_text
from mediamill.agents.openai_chat import OpenAiAgent
from mediamill.agents.pi import PiAgent, PiSession
from mediamill.agents.pi_setup import configure_pi
from mediamill.testing.model_server import failing
from mediamill.testing.openai_server import OpenAiServer, held_stream, images_in, refusing_images
from tests.agents.asking import PNG, only_pid, requests
from tests.agents.conftest import MakePi, images_of, said
from tests.conftest import wait_until

KINDS = ("image/png", "image/jpeg", "image/webp", "image/gif")
# pi does not look into them: what cannot be decoded, or is large, arrives too.
IMAGES = [Image(KINDS[number % 4], bytes([number]) * (1 + 100_000 * number)) for number in range(5)]


async def keys_are(session: PiSession, count: int) -> None:
    """Wait until so many inputs are in the run that goes on."""

    async def there() -> bool:
        return session._now is not None and len(session._now[0].keys) == count

    await wait_until(there)


@pytest.mark.spec("I10")
async def test_images_arrive_in_order_and_byte_for_byte(make_pi: MakePi, server: OpenAiServer) -> None:
    assert await answer_text(make_pi().session("t").prompt("look", IMAGES)) == "you said: look"
    assert images_of(server) == [image.data for image in IMAGES]
    parts = server.seen[0].json()["messages"][-1]["content"]
    heads = [part["image_url"]["url"].partition(";")[0] for part in parts if part["type"] == "image_url"]
    assert heads == [f"data:{image.mime_type}" for image in IMAGES]


@pytest.mark.spec("I10")
async def test_an_image_said_into_a_run_arrives_in_that_run(make_pi: MakePi, server: OpenAiServer) -> None:
    session = make_pi().session("t")
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on))
    first = asyncio.create_task(answer_text(session.prompt("one", IMAGES[:1], "run-1")))
    await requests(server, 1, first)
    steered = asyncio.create_task(answer_text(session.steer("rather this", IMAGES[1:3], "run-2")))
    await keys_are(session, 2)
    later = asyncio.create_task(answer_text(session.follow_up("and this", IMAGES[3:4], "run-3")))
    go_on.set()
    assert [await first, await steered, await later] == ["a b", "you said: rather this", "you said: and this"]
    assert [text for role, text in said(server) if role == "user"] == ["one", "rather this", "and this"]
    assert images_of(server, 1) == [image.data for image in IMAGES[:3]]
    assert images_of(server, 2) == [image.data for image in IMAGES[:4]]
    assert len(server.seen) == 3
    again = [await answer_text(session.steer("?", (), key)) for key in ("run-1", "run-2", "run-3")]
    assert again == ["a b", "you said: rather this", "you said: and this"]
    assert len(server.seen) == 3


@pytest.mark.spec("I10")
async def test_what_is_said_at_once_into_a_run_that_only_begins_is_not_lost(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    session = make_pi().session("t")
    await answer_text(session.prompt("zero"))
    large = Image("image/png", bytes(3_000_000))
    first = asyncio.create_task(answer_text(session.prompt("one", [large], "run-1")))
    await keys_are(session, 1)
    steered = [asyncio.create_task(answer_text(session.steer(text, IMAGES[:1], text))) for text in ("a", "b")]
    answers = [await first, *(await asyncio.gather(*steered))]
    assert [text for role, text in said(server) if role == "user"] == ["zero", "one", "a", "b"]
    assert images_of(server) == [large.data, IMAGES[0].data, IMAGES[0].data]
    # pi may take up what it hears before it asks the model; then one answer is for all of them.
    assert set(answers) <= {"you said: one", "you said: a", "you said: b"}
    assert answers[2] == "you said: b"
    asked = len(server.seen)
    again = [await answer_text(session.prompt("?", (), key)) for key in ("run-1", "a", "b")]
    assert again == answers
    assert len(server.seen) == asked


@pytest.mark.spec("I10")
async def test_an_image_where_nothing_runs_is_asked_in_turn(make_pi: MakePi, server: OpenAiServer) -> None:
    session = make_pi().session("t")
    assert await answer_text(session.steer("one", IMAGES[:2], "run-1")) == "you said: one"
    assert await answer_text(session.follow_up("two", IMAGES[2:3], "run-2")) == "you said: two"
    assert images_of(server, 0) == [image.data for image in IMAGES[:2]]
    assert images_of(server, 1) == [image.data for image in IMAGES[:3]]


@pytest.mark.spec("I10")
async def test_when_pi_dies_only_what_was_not_answered_is_asked_again(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi()
    session = agent.session("t")
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on), held_stream("half ", "of it", threading.Event()))
    first = asyncio.create_task(answer_text(session.prompt("one", IMAGES[:1], "run-1")))
    await requests(server, 1, first)
    steered = asyncio.create_task(answer_text(session.steer("two", IMAGES[1:2], "run-2")))
    await keys_are(session, 2)
    go_on.set()
    await requests(server, 2, first, steered)
    os.kill(only_pid(agent), signal.SIGKILL)
    assert await first == "a b"
    with pytest.raises(AgentBusyError):
        await steered
    assert await answer_text(session.prompt("one", IMAGES[:1], "run-1")) == "a b"
    assert await answer_text(session.steer("two", IMAGES[1:2], "run-2")) == "you said: two"
    assert said(server) == [("user", "one"), ("assistant", "a b"), ("user", "two")]
    assert images_of(server) == [image.data for image in IMAGES[:2]]
    assert len(server.seen) == 3


@pytest.mark.spec("I10")
async def test_an_image_that_the_model_refuses_fails_only_what_it_came_with(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    session = make_pi().session("t")
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on), failing(400, "invalid image"))
    first = asyncio.create_task(answer_text(session.prompt("one", (), "run-1")))
    await requests(server, 1, first)
    poison = asyncio.create_task(answer_text(session.steer("look", [Image("image/png", b"poison")], "run-2")))
    await keys_are(session, 2)
    go_on.set()
    assert await first == "a b"
    with pytest.raises(AgentRefusedError):
        await poison
    assert await answer_text(session.prompt("two", (), "run-3")) == "you said: two"
    assert said(server) == [("user", "one"), ("assistant", "a b"), ("user", "two")]
    assert images_of(server) == []


@pytest.mark.spec("I10")
async def test_a_thread_goes_on_after_an_image_that_the_model_cannot_read(
    agent: Agent, server: OpenAiServer
) -> None:
    server.always(refusing_images(server, b"poison"))
    session = agent.session("t")
    good, bad = Image("image/png", PNG), Image("image/png", b"poison")
    await answer_text(session.prompt("one", [good], "run-1"))
    for _ in range(2):
        with pytest.raises(AgentRefusedError, match="400"):
            await answer_text(session.prompt("look", [good, bad], "run-2"))
    assert await answer_text(session.prompt("two", (), "run-3")) == "you said: two"
    assert ("user", "look") not in said(server)
    assert bad.data not in images_of(server)
    again = (
        2 if isinstance(agent, OpenAiAgent) else 0
    )  # without the images of before, which might be the reason
    assert len(server.seen) == 4 + again


@pytest.mark.parametrize("status", [400, 500])
async def test_a_model_without_eyes_is_said_to_be_one(
    agent: Agent, server: OpenAiServer, status: int
) -> None:
    server.always(failing(status, "image input is not supported - hint: you may need to provide the mmproj"))
    with pytest.raises(AgentRefusedError, match="no images") as caught:
        await answer_text(agent.session("t").prompt("look", [Image("image/png", PNG)]))
    assert "MEDIAMILL_TEXT_MODEL" in (caught.value.fix or "")


def without_eyes(agent: PiAgent) -> None:
    """Tell pi that its model takes text only."""
    folder = configure_pi(agent.settings)
    told: Any = json.loads((folder / "models.json").read_text())
    told["providers"]["mediamill"]["models"][0]["input"] = ["text"]
    (folder / "models.json").write_text(json.dumps(told))
    agent._config = folder


async def test_images_that_pi_would_leave_out_are_refused(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi()
    without_eyes(agent)
    session = agent.session("t")
    with pytest.raises(AgentRefusedError, match="no images"):
        await answer_text(session.prompt("look", [Image("image/png", PNG)]))
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on))
    first = asyncio.create_task(answer_text(session.prompt("one")))
    await requests(server, 1, first)
    with pytest.raises(AgentRefusedError, match="no images"):
        await answer_text(session.steer("look", [Image("image/png", PNG)]))
    go_on.set()
    assert await first == "a b"
    assert len(server.seen) == 1


@pytest.mark.spec("I10")
@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
async def test_while_pi_sums_a_conversation_up_nothing_is_lost(
    make_pi: MakePi, server: OpenAiServer, dies: bool
) -> None:
    server.tokens = 0  # it reports none, so that pi reckons
    agent = make_pi(agent_context_tokens=4_000)  # three images are too much for that, by pi's reckoning
    session = agent.session("t")
    await answer_text(session.prompt("zero", IMAGES[:1]))
    begin, go_on = threading.Event(), threading.Event()
    begin.set()
    server.then(held_stream("a ", "b", begin), held_stream("they looked ", "at images", go_on))
    first = asyncio.create_task(answer_text(session.prompt("one", IMAGES[1:3], "run-1")))
    await requests(server, 3)
    steered = asyncio.create_task(answer_text(session.steer("two", (), "run-2")))
    if dies:
        os.kill(only_pid(agent), signal.SIGKILL)
    go_on.set()
    assert await first == "a b"
    if dies:
        with contextlib.suppress(AgentBusyError):  # unless it came too late to be said into that run
            await steered
        steered = asyncio.create_task(answer_text(session.steer("two", (), "run-2")))
    assert await steered == "you said: two"
    asked = [seen.json()["messages"] for seen in server.seen]
    assert sum(IMAGES[2].data in images_in(messages[-1]["content"]) for messages in asked) == 1
