"""Messages with images to the real pi, through a real server, a model on loopback, and kills with -9 in the middle."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest

from mediamill.client import AsyncClient
from mediamill.testing.openai_server import OpenAiServer, held_stream
from tests.agents.conftest import link_pi, said
from tests.conftest import wait_until
from tests.crash.processes import Mill, Process
from tests.stories.colours import COLOURS, address, mill, model, paint

__all__ = ["mill", "model"]
PICTURES = [paint(colour) for colour in (*COLOURS, *reversed(COLOURS))]
SEEN = "I see red, lime, blue, blue, lime, red."


@pytest.fixture
def pi_mill(mill: Mill) -> Mill:
    """The same with pi."""
    data = mill.folder / "data"
    data.mkdir()
    link_pi(data)
    mill.settings["MEDIAMILL_AGENT"] = "pi"
    return mill


@pytest.fixture(autouse=True)
def owner(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client finds the key of the server in its data folder."""
    monkeypatch.setenv("MEDIAMILL_DATA", str(mill.folder / "data"))


def pi_of(server: Process) -> psutil.Process:
    """Known by the folder that it works in: it gives itself another name."""
    [pi] = [child for child in server.children() if Path(child.cwd()).name == "work"]
    return pi


@pytest.mark.spec("I5", "I6", "I10")
async def test_pi_gets_the_images_in_order_and_a_kill_of_it_or_of_the_server_loses_nothing(
    pi_mill: Mill,
    model: OpenAiServer,
) -> None:
    server = await pi_mill.started("up")
    async with AsyncClient(address(pi_mill)) as client:
        first = await client.ask("t", "which colours?", PICTURES)
        assert first.answer == SEEN
        assert await pi_mill.one("select count(*) from input_images") == 0

        model.then(held_stream("I se", "", threading.Event()))
        second = await client.send_message("t", "and now?", PICTURES)
        await pi_mill.until("select answer = 'I se' from runs where run_id = $1", second.run_id)
        assert await pi_mill.one("select count(*) from input_images") == len(PICTURES)
        pi_of(server).kill()
        assert (await client.wait(second.run_id)).answer == SEEN
        assert await pi_mill.one("select count(*) from input_images") == 0

        model.then(held_stream("I se", "", threading.Event()))
        third = await client.send_message("t", "once more?", PICTURES)
        await pi_mill.until("select answer = 'I se' from runs where run_id = $1", third.run_id)
        server.kill()
        server = await pi_mill.started("up")
        ended = await client.wait(third.run_id)
        assert (ended.answer, ended.images_waiting) == (SEEN, 0)
    asked = [
        [text for role, text in said(model, number) if role == "user"] for number in range(len(model.seen))
    ]
    texts = ["which colours?", "and now?", "once more?"]
    assert asked == [texts[:1], texts[:2], texts[:2], texts, texts]


@pytest.mark.spec("I10")
async def test_pi_is_steered_while_it_answers(pi_mill: Mill, model: OpenAiServer) -> None:
    server = await pi_mill.started("up")
    go_on = threading.Event()
    model.then(held_stream("Well", " then.", go_on))
    async with AsyncClient(address(pi_mill)) as client:
        long = await client.send_message("t", "think about red")
        await pi_mill.until("select answer = 'Well' from runs where run_id = $1", long.run_id)
        steered = await client.send_message("t", "blue, rather", [paint("blue")], delivery_mode="steer")
        await pi_mill.until("select state = 'running' from runs where run_id = $1", steered.run_id)
        assert (await client.run(long.run_id)).state == "running"
        go_on.set()
        assert (await client.wait(steered.run_id)).answer.endswith("I see blue.")
        assert (await client.wait(long.run_id)).state == "completed"
    assert [text for role, text in said(model) if role == "user"] == ["think about red", "blue, rather"]

    async def one_pi() -> bool:
        return pi_of(server).is_running()

    await wait_until(one_pi)
