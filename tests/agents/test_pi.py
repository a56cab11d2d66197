"""The real pi against a model server on this machine: its processes, its memory, and what kills them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from mediamill.agents.contract import AgentBusyError, answer_text
from mediamill.agents.pi import PiAgent
from mediamill.agents.pi_setup import PiProgram
from mediamill.testing.model_server import BROKEN, SILENT
from mediamill.testing.openai_server import OpenAiServer, held_stream, tool_call
from tests.agents.asking import only_pid, requests
from tests.agents.conftest import KEY, MakePi, MakeSettings, said
from tests.conftest import wait_until


@pytest.mark.spec("I10")
async def test_a_pi_killed_at_work_is_started_again_and_remembers_only_what_was_done(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi()
    session = agent.session("t")
    await answer_text(session.prompt("one"))
    server.then(held_stream("half ", "of it", threading.Event()))
    broken = asyncio.create_task(answer_text(session.prompt("two")))
    await requests(server, 2, broken)
    os.kill(only_pid(agent), signal.SIGKILL)
    with pytest.raises(AgentBusyError):
        await broken
    assert await answer_text(session.prompt("three")) == "you said: three"
    assert said(server) == [("user", "one"), ("assistant", "you said: one"), ("user", "three")]


async def test_a_pi_killed_in_its_first_run_leaves_an_empty_thread(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi()
    server.then(held_stream("half ", "of it", threading.Event()))
    broken = asyncio.create_task(answer_text(agent.session("t").prompt("one")))
    await requests(server, 1, broken)
    os.kill(only_pid(agent), signal.SIGKILL)
    with pytest.raises(AgentBusyError):
        await broken
    await answer_text(agent.session("t").prompt("two"))
    assert said(server) == [("user", "two")]


async def test_a_pi_killed_while_idle_is_not_missed(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi()
    await answer_text(agent.session("t").prompt("one"))
    pid = only_pid(agent)
    os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: _is_gone(pid))
    await answer_text(agent.session("t").prompt("two"))
    assert said(server)[-1] == ("user", "two")
    assert len(said(server)) == 3


async def test_tokens_are_those_that_the_model_reports_for_all_its_answers(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    session = make_pi().session("t")
    for asked in (1, 2):
        await answer_text(session.prompt("hello"))
        assert session.tokens == asked * server.tokens
    server.then(BROKEN)  # pi tries again by itself; what failed reports nothing
    await answer_text(session.prompt("once more"))
    assert session.tokens == 3 * server.tokens


async def _is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


ASK = """
import asyncio, sys
from pathlib import Path
from mediamill.agents.contract import answer_text
from mediamill.agents.pi import PiAgent
from mediamill.agents.pi_setup import PiProgram
from mediamill.settings import Settings

async def main():
    agent = PiAgent(Settings(), PiProgram(Path(sys.argv[1]), Path(sys.argv[2])))
    session = agent.session("t")
    await answer_text(session.prompt("one"))
    await answer_text(session.prompt("two"))

asyncio.run(main())
"""


@pytest.mark.spec("I10")
async def test_when_the_server_is_killed_its_pi_ends_and_the_next_server_goes_on(
    make_pi: MakePi, server: OpenAiServer, pi_program: PiProgram, tmp_path: Path
) -> None:
    first = threading.Event()
    first.set()
    server.then(held_stream("done ", "well", first), held_stream("half ", "of it", threading.Event()))
    settings = {"DATA": str(tmp_path), "OPENAI_URL": f"{server.url}/v1", "TEXT_MODEL": "test-model"}
    environment = {**os.environ, **{f"MEDIAMILL_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-c", ASK, str(pi_program.node), str(pi_program.script)]
    other = subprocess.Popen(command, env=environment)  # noqa: ASYNC220
    await requests(server, 2)
    (orphan,) = [child.pid for child in psutil.Process(other.pid).children()]
    other.kill()
    other.wait()
    assert await answer_text(make_pi().session("t").prompt("three")) == "you said: three"
    assert await _is_gone(orphan)
    assert said(server) == [("user", "one"), ("assistant", "done well"), ("user", "three")]


@pytest.mark.spec("I10")
async def test_a_conversation_goes_on_with_another_agent_on_the_same_folder(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi()
    await answer_text(agent.session("t").prompt("one"))
    await agent.close()
    await answer_text(make_pi().session("t").prompt("two"))
    assert said(server) == [("user", "one"), ("assistant", "you said: one"), ("user", "two")]


async def test_many_threads_can_begin_at_once(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi(pi_sessions=6)
    keys = [f"thread {number}" for number in range(6)]
    answers = await asyncio.gather(*(answer_text(agent.session(key).prompt(key)) for key in keys))
    assert answers == [f"you said: {key}" for key in keys]
    assert len(agent.pool.processes) == 6


@pytest.mark.spec("I10")
async def test_there_are_never_more_processes_than_allowed_and_the_longest_idle_goes(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi(pi_sessions=2)
    for key in ("a", "b"):
        await answer_text(agent.session(key).prompt(key))
    of_a, of_b = (process.pid for process in agent.pool.processes)
    await answer_text(agent.session("a").prompt("again"))
    await answer_text(agent.session("c").prompt("c"))
    living = {process.pid for process in agent.pool.processes}
    assert len(living) == 2
    assert of_a in living
    assert await _is_gone(of_b)


async def test_a_thread_for_which_there_is_no_room_waits_its_turn(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi(pi_sessions=1)
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on))
    first = asyncio.create_task(answer_text(agent.session("a").prompt("one")))
    await requests(server, 1, first)
    others = [asyncio.create_task(answer_text(agent.session(key).prompt(key))) for key in ("b", "c")]
    go_on.set()
    assert await asyncio.gather(first, *others) == ["a b", "you said: b", "you said: c"]
    assert len(agent.pool.processes) == 1


async def test_no_room_for_too_long_is_said(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi(pi_sessions=1)
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on))
    first = asyncio.create_task(answer_text(agent.session("a").prompt("one")))
    await requests(server, 1, first)
    agent.settings = agent.settings.model_copy(update={"agent_timeout_seconds": 0.1})
    with pytest.raises(AgentBusyError, match="busy") as caught:
        await answer_text(agent.session("b").prompt("two"))
    assert "MEDIAMILL_PI_SESSIONS" in (caught.value.fix or "")
    go_on.set()
    assert await first == "a b"


async def test_an_idle_process_is_stopped_and_the_thread_goes_on_later(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi(pi_idle_seconds=0.1)
    await answer_text(agent.session("t").prompt("one"))

    async def none() -> bool:
        return not agent.pool.processes

    await wait_until(none)
    await answer_text(agent.session("t").prompt("two"))
    assert len(said(server)) == 3


@pytest.mark.spec("I10")
async def test_a_run_that_takes_too_long_is_ended(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi(agent_timeout_seconds=1)
    server.then(SILENT)
    with pytest.raises(AgentBusyError, match="within 1 seconds") as caught:
        await answer_text(agent.session("t").prompt("one"))
    assert "MEDIAMILL_AGENT_TIMEOUT_SECONDS" in (caught.value.fix or "")
    assert agent.pool.processes == []


async def test_a_server_that_fails_once_is_asked_again_by_pi_itself(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    server.then(BROKEN)
    assert await answer_text(make_pi().session("t").prompt("one")) == "you said: one"


@pytest.mark.spec("I10")
async def test_what_is_said_into_a_run_is_answered_within_it(make_pi: MakePi, server: OpenAiServer) -> None:
    session = make_pi().session("t")
    go_on = threading.Event()
    server.then(held_stream("a ", "b", go_on))
    first = asyncio.create_task(answer_text(session.prompt("one")))
    await requests(server, 1, first)
    steered = asyncio.create_task(answer_text(session.steer("rather two")))
    later = asyncio.create_task(answer_text(session.follow_up("three")))

    async def is_said() -> bool:
        in_it = session._now is not None and len(session._now[0].keys) == 2
        return in_it and not session._speaking.locked()  # pi has taken it

    await wait_until(is_said)
    go_on.set()
    answers = [await first, await steered, await later]
    assert answers == ["a b", "you said: rather two", "you said: three"]
    assert [text for role, text in said(server) if role == "user"] == ["one", "rather two", "three"]


async def test_when_a_run_dies_what_was_said_into_it_fails_too(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi()
    session = agent.session("t")
    server.then(held_stream("a ", "b", threading.Event()))
    first = asyncio.create_task(answer_text(session.prompt("one")))
    await requests(server, 1, first)
    steered = asyncio.create_task(answer_text(session.steer("rather two")))

    async def is_said() -> bool:
        return session._now is not None and len(session._now[0].keys) == 2

    await wait_until(is_said)
    os.kill(only_pid(agent), signal.SIGKILL)
    outcomes = await asyncio.gather(first, steered, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [AgentBusyError, AgentBusyError]


async def test_a_text_that_looks_like_a_command_of_pi_is_a_text(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    assert await answer_text(make_pi().session("t").prompt("/llama x")) == "you said: /llama x"


async def test_pi_is_given_the_key_of_the_endpoint_and_no_other_secret(
    make_pi: MakePi, server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_ADMIN_SECRET", "for-nobody")
    monkeypatch.setenv("SOME_TOKEN", "for-nobody")
    agent = make_pi()
    await answer_text(agent.session("t").prompt("one"))
    environment = psutil.Process(only_pid(agent)).environ()
    assert "for-nobody" not in environment.values()
    assert KEY not in str(environment)
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in " ".join(psutil.Process(only_pid(agent)).cmdline())


async def test_pi_has_no_tools_unless_they_are_allowed(make_pi: MakePi, server: OpenAiServer) -> None:
    await answer_text(make_pi().session("t").prompt("one"))
    assert not server.seen[0].json().get("tools")


async def test_pi_uses_a_tool_that_is_allowed(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi(pi_tools="bash")
    server.then(tool_call("bash", {"command": "echo $((6 * 7)) > found.txt; cat found.txt"}))
    assert await answer_text(agent.session("t").prompt("what is it?")) == "you said: 42"
    assert [tool["function"]["name"] for tool in server.seen[0].json()["tools"]] == ["bash"]


async def test_a_tool_ends_with_its_run(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi(pi_tools="bash")
    server.then(tool_call("bash", {"command": "sleep 3600"}))
    asked = asyncio.create_task(answer_text(agent.session("t").prompt("wait")))
    await requests(server, 1, asked)
    found: list[psutil.Process] = []

    async def sleeps() -> bool:
        below = psutil.Process(only_pid(agent)).children(recursive=True)
        with contextlib.suppress(psutil.NoSuchProcess):  # one of them has just ended
            found[:] = [child for child in below if child.name() == "sleep"]
        return bool(found)

    await wait_until(sleeps)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await wait_until(lambda: _is_gone(found[0].pid))
    assert agent.pool.processes == []


async def test_a_key_of_a_thread_is_never_a_path(make_pi: MakePi, tmp_path: Path) -> None:
    await answer_text(make_pi().session("../../etc/x\0y").prompt("one"))
    names = {path.name for path in (tmp_path / "agents" / "pi").iterdir()}
    assert {len(name) for name in names - {"config"}} == {64}


async def test_other_instructions_take_effect_with_the_next_question(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi()
    await answer_text(agent.session("t", instructions="Be kind.").prompt("one"))
    await answer_text(agent.session("t", instructions="Be brief.").prompt("two"))
    assert "Be brief." in str(server.seen[1].json()["messages"])
    assert len(agent.pool.processes) == 1


async def test_after_closing_nothing_runs_and_nothing_starts(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi()
    await answer_text(agent.session("idle").prompt("one"))
    server.then(held_stream("a ", "b", threading.Event()))
    broken = asyncio.create_task(answer_text(agent.session("busy").prompt("two")))
    await requests(server, 2, broken)
    pids = [process.pid for process in agent.pool.processes]
    await agent.close()
    with pytest.raises(AgentBusyError):
        await broken
    assert [await _is_gone(pid) for pid in pids] == [True, True]
    with pytest.raises(AgentBusyError):
        await answer_text(agent.session("t").prompt("three"))


async def test_a_pi_that_does_not_start_says_why(
    make_settings: MakeSettings, pi_program: PiProgram, tmp_path: Path
) -> None:
    script = tmp_path / "broken.js"
    script.write_text("console.error('out of order'); process.exit(3)")
    agent = PiAgent(make_settings(), PiProgram(pi_program.node, script))
    with pytest.raises(AgentBusyError, match="out of order"):
        await answer_text(agent.session("t").prompt("one"))


@pytest.mark.parametrize(
    "writes",
    ["'this is no JSON\\n'", "'[' .repeat(100000) + '\\n'", "Buffer.alloc(80 << 20, 97)"],
    ids=["text", "deep", "endless line"],
)
async def test_a_pi_that_writes_nonsense_is_ended(
    make_settings: MakeSettings, pi_program: PiProgram, tmp_path: Path, writes: str
) -> None:
    script = tmp_path / "mad.js"
    script.write_text(f"process.stdout.write({writes}); setInterval(() => {{}}, 1000)")
    agent = PiAgent(make_settings(), PiProgram(pi_program.node, script))
    with pytest.raises(AgentBusyError, match="cannot be read"):
        await answer_text(agent.session("t").prompt("one"))
    assert agent.pool.processes == []
