"""kill -9 in the midst of runs with images: of the real pi at every point, and of the server that it works for.

Whoever asks again with the same key gets the answer; the model is asked again only if it had not answered whole.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mediamill.agents.contract import AgentBusyError, Image, answer_text
from mediamill.agents.pi import PiAgent
from mediamill.agents.pi_setup import PiProgram
from mediamill.testing.model_server import SILENT
from mediamill.testing.openai_server import OpenAiServer, held_stream, tool_call
from tests.agents.asking import PNG, only_pid, requests
from tests.agents.conftest import MakePi, MakeSettings, images_of, said

# Readers stop at the end of an image; what follows tells the images apart.
IMAGES = [Image("image/png", PNG + bytes([number])) for number in range(3)]
BEFORE = [("user", "one"), ("assistant", "you said: one")]

DYING = """
import { existsSync, unlinkSync } from "node:fs";
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (chunk, ...rest) => {
    if (String(chunk).includes(MARK) && existsSync(ARMED)) {
        unlinkSync(ARMED);
        process.kill(process.pid, "SIGKILL");
    }
    return write(chunk, ...rest);
};
await import(SCRIPT);
"""

MakeDying = Callable[[str], tuple[PiAgent, Path]]


@pytest.fixture
async def make_dying(make_settings: MakeSettings, pi_program: PiProgram, tmp_path: Path) -> Any:
    """The real pi, which kills itself before it says something, once, when the file is there."""
    made: list[PiAgent] = []

    def make(mark: str) -> tuple[PiAgent, Path]:
        armed, script = tmp_path / "armed", tmp_path / "dying.mjs"
        told = {"MARK": mark, "ARMED": str(armed), "SCRIPT": pi_program.script.as_uri()}
        script.write_text(
            "".join(f"const {name} = {json.dumps(value)};" for name, value in told.items()) + DYING
        )
        made.append(PiAgent(make_settings(), PiProgram(pi_program.node, script)))
        return made[-1], armed

    yield make
    for agent in made:
        await agent.close()


async def ask_twice(agent: PiAgent, broken: asyncio.Task[str]) -> str:
    """Kill pi at its work, then ask the same again."""
    os.kill(only_pid(agent), signal.SIGKILL)
    with pytest.raises(AgentBusyError):
        await broken
    return await answer_text(agent.session("t").prompt("two", IMAGES, "run-2"))


@pytest.mark.spec("I10")
@pytest.mark.parametrize(
    "act", [SILENT, held_stream("half ", "of it", threading.Event())], ids=["asked", "half"]
)
async def test_what_the_model_had_not_answered_is_asked_again_with_its_images_and_stands_there_once(
    make_pi: MakePi, server: OpenAiServer, act: Any
) -> None:
    agent = make_pi()
    session = agent.session("t")
    await answer_text(session.prompt("one", (), "run-1"))
    server.then(act)
    broken = asyncio.create_task(answer_text(session.prompt("two", IMAGES, "run-2")))
    await requests(server, 2, broken)
    assert await ask_twice(agent, broken) == "you said: two"
    assert len(server.seen) == 3
    assert said(server) == [*BEFORE, ("user", "two")]
    assert images_of(server) == [image.data for image in IMAGES]


@pytest.mark.spec("I10")
@pytest.mark.parametrize("mark", ["turn_end", "agent_end", "agent_settled"])
async def test_a_pi_that_dies_after_the_model_s_last_word_has_answered(
    make_dying: MakeDying, server: OpenAiServer, mark: str
) -> None:
    agent, armed = make_dying(f'"type":"{mark}"')
    session = agent.session("t")
    await answer_text(session.prompt("one", (), "run-1"))
    armed.touch()
    assert await answer_text(session.prompt("two", IMAGES, "run-2")) == "you said: two"
    assert not armed.exists()
    assert await answer_text(session.prompt("three", (), "run-3")) == "you said: three"
    assert len(server.seen) == 3
    assert said(server) == [*BEFORE, ("user", "two"), ("assistant", "you said: two"), ("user", "three")]


@pytest.mark.spec("I10")
@pytest.mark.parametrize("first", [True, False], ids=["first run", "later run"])
async def test_a_pi_that_dies_before_it_tells_of_the_last_word_does_not_ask_again(
    make_dying: MakeDying, server: OpenAiServer, first: bool
) -> None:
    agent, armed = make_dying('"type":"message_end","message":{"role":"assistant"')
    session = agent.session("t")
    if not first:
        await answer_text(session.prompt("one", (), "run-1"))
    asked = len(server.seen)
    armed.touch()
    with pytest.raises(AgentBusyError):
        await answer_text(session.prompt("two", IMAGES, "run-2"))
    assert not armed.exists()
    assert await answer_text(session.prompt("two", IMAGES, "run-2")) == "you said: two"
    assert len(server.seen) == asked + 1
    await answer_text(session.prompt("three", (), "run-3"))
    assert said(server)[-3:] == [("user", "two"), ("assistant", "you said: two"), ("user", "three")]
    assert len(server.seen) == asked + 2


@pytest.mark.spec("I10")
async def test_what_was_answered_but_is_not_asked_for_again_is_forgotten(
    make_dying: MakeDying, server: OpenAiServer
) -> None:
    agent, armed = make_dying('"type":"message_end","message":{"role":"assistant"')
    session = agent.session("t")
    await answer_text(session.prompt("one", (), "run-1"))
    armed.touch()
    with pytest.raises(AgentBusyError):
        await answer_text(session.prompt("two", IMAGES, "run-2"))
    await answer_text(session.prompt("three", (), "run-3"))
    assert said(server) == [*BEFORE, ("user", "three")]


async def test_a_run_with_an_open_tool_call_was_not_answered(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi(pi_tools="bash")
    session = agent.session("t")
    await answer_text(session.prompt("one", (), "run-1"))
    server.then(tool_call("bash", {"command": "true"}), SILENT)
    broken = asyncio.create_task(answer_text(session.prompt("two", IMAGES, "run-2")))
    await requests(server, 3, broken)
    assert await ask_twice(agent, broken) == "you said: two"
    assert said(server) == [*BEFORE, ("user", "two")]


ASK = """
import asyncio, os, signal, sys
from pathlib import Path
from mediamill.agents.contract import Image, answer_text
from mediamill.agents.pi import PiAgent
from mediamill.agents.pi_setup import PiProgram
from mediamill.agents.pi_thread import PiThread
from mediamill.settings import Settings

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    agent = PiAgent(Settings(), PiProgram(Path(sys.argv[1]), Path(sys.argv[2])))
    session = agent.session("t")
    await answer_text(session.prompt("one", (), "run-1"))
    if sys.argv[3] == "before settling":
        PiThread.settle = die
    await answer_text(session.prompt("two", [Image("image/png", b"an image")], "run-2"))
    die()

asyncio.run(main())
"""


def run_server(server: OpenAiServer, program: PiProgram, data: Path, dies: str) -> int:
    """A server of its own that asks two things and dies."""
    settings = {"DATA": str(data), "OPENAI_URL": f"{server.url}/v1", "TEXT_MODEL": "test-model"}
    environment = {**os.environ, **{f"MEDIAMILL_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-c", ASK, str(program.node), str(program.script), dies]
    return subprocess.run(command, env=environment, timeout=120, check=False).returncode


@pytest.mark.spec("I10")
@pytest.mark.parametrize("dies", ["before settling", "after settling"])
async def test_a_server_killed_before_it_recorded_the_answer_gets_it_again(
    make_pi: MakePi, server: OpenAiServer, pi_program: PiProgram, tmp_path: Path, dies: str
) -> None:
    assert await asyncio.to_thread(run_server, server, pi_program, tmp_path, dies) == -signal.SIGKILL
    assert len(server.seen) == 2
    agent = make_pi()
    session = agent.session("t")
    again = [
        await answer_text(session.prompt("two", [Image("image/png", b"an image")], "run-2")) for _ in "ab"
    ]
    assert again == ["you said: two", "you said: two"]
    assert await answer_text(session.prompt("one", (), "run-1")) == "you said: one"
    assert len(server.seen) == 2
    assert agent.pool.processes == []
    await answer_text(session.prompt("three", (), "run-3"))
    assert said(server) == [*BEFORE, ("user", "two"), ("assistant", "you said: two"), ("user", "three")]
    assert len(server.seen) == 3


async def test_the_same_question_under_another_key_is_another_question(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    session = make_pi().session("t")
    answers = [await answer_text(session.prompt("one", (), key)) for key in ("a", "b", None, None)]
    assert answers == ["you said: one"] * 4
    assert len(server.seen) == 4


async def test_an_answer_that_is_given_again_is_the_one_that_was_given(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi(pi_tools="bash")
    server.say = lambda _: "<think>hm</think>\n\nline one\n\nline two  "
    server.then(tool_call("bash", {"command": "true"}))
    first = await answer_text(agent.session("t").prompt("one", (), "run-1"))
    assert first == "line one\n\nline two"
    assert await answer_text(make_pi().session("t").prompt("one", (), "run-1")) == first
    assert len(server.seen) == 2
