"""`mediamill message` and the Python client as their users meet them: a real server, an agent, a model on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mediamill.client import AsyncClient, Client, Image, ProblemError, RunFailedError, TextPiece
from mediamill.testing.model_server import failing
from mediamill.testing.openai_server import OpenAiServer, held_stream
from tests.crash.processes import Mill, in_thread
from tests.stories.colours import COLOURS, address, mill, model, paint

__all__ = ["mill", "model"]


def start(mill: Mill, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mediamill", *map(str, words)]
    return subprocess.Popen(command, env=mill.environment, stdout=-1, stderr=-1, text=True)


async def run(mill: Mill, *words: object) -> tuple[int, str, str]:
    """Its exit code, what it said, and what it said beside that."""
    process = start(mill, *words)
    out, err = await in_thread(lambda: process.communicate(timeout=120))
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.mark.spec("I5", "I9")
async def test_images_go_to_the_agent_in_order_and_its_answer_comes_back(mill: Mill, tmp_path: Path) -> None:
    await mill.started("up")
    files = [tmp_path / f"{number}.jpg" for number in range(3)]
    for file, colour, kind in zip(files, COLOURS, ("PNG", "JPEG", "WEBP"), strict=True):
        file.write_bytes(paint(colour, kind))
    words = [word for file in (files[2], files[0], files[1]) for word in ("-i", file)]
    code, out, err = await run(mill, "message", "which colours?", *words, "--thread", "paint/1")
    assert (code, out, err) == (0, "I see blue, red, lime.\n", "")
    _, out, _ = await run(mill, "runs", "list", "--thread", "paint/1", "--json")
    [listed] = json.loads(out)
    assert (listed["image_count"], listed["images_waiting"], listed["state"]) == (3, 0, "completed")
    assert await mill.one("select count(*) from input_images") == 0
    code, out, _ = await run(mill, "runs", "show", listed["run_id"])
    assert code == 0
    assert "I see blue, red, lime." in out
    code, _, err = await run(mill, "runs", "retry", listed["run_id"])
    assert code == 1
    assert "(run_not_failed)" in err


@pytest.mark.spec("I9")
async def test_whoever_waits_sits_out_that_the_server_is_killed(mill: Mill, model: OpenAiServer) -> None:
    up = await mill.started("up")
    never, go_on = threading.Event(), threading.Event()
    go_on.set()
    model.then(held_stream("Once upon\n", "", never), held_stream("Once upon\n", "a time.", go_on))
    process = start(mill, "message", "tell me a story")
    assert process.stdout is not None
    assert await in_thread(process.stdout.readline) == "Once upon\n"
    up.kill()
    await mill.started("up")
    out, err = await in_thread(lambda: process.communicate(timeout=120))
    assert (process.returncode, out, err) == (0, "a time.\n", "")
    assert await mill.one("select count(*) from runs") == 1


@pytest.fixture(autouse=True)
def owner(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client finds the key of the server in its data folder."""
    monkeypatch.setenv("MEDIAMILL_DATA", str(mill.folder / "data"))


@pytest.mark.spec("I2", "I3")
async def test_both_clients_are_understood(mill: Mill, model: OpenAiServer) -> None:
    await mill.started("up")
    red, blue = paint("red"), Image(paint("blue", "GIF"), filename="b.gif")
    async with AsyncClient(address(mill)) as client:
        assert (await client.ask("t", "what?", [red, blue])).answer == "I see red, blue."
        first = await client.send_message("t", "what?", [red], idempotency_key="k")
        again = await client.send_message("t", "what?", [red], idempotency_key="k")
        assert (first.repeated, again.repeated, again.run_id) == (False, True, first.run_id)
        events = [event async for event in client.stream(first.run_id)]
        assert "".join(event.text for event in events if isinstance(event, TextPiece)) == "I see red."
        assert [run.text for run in await client.runs("t", limit=1)] == ["what?"]
        assert (await client.runs("t"))[1].created_at is not None
        codes = [
            await refusal(client, images=[red] * 11),
            await refusal(client, images=[red + bytes(27_000_000)] * 2),
            await refusal(client, images=[b"%PDF-1.7"]),
            await refusal(client, images=[blue], idempotency_key="k"),
        ]
        assert codes == [
            "image_count_exceeded",
            "image_total_bytes_exceeded",
            "image_mime_type_unsupported",
            "idempotency_payload_mismatch",
        ]
    await in_thread(lambda: fail_and_retry(address(mill), model))


async def refusal(client: AsyncClient, **more: Any) -> str:
    with pytest.raises(ProblemError) as caught:
        await client.send_message("t", "what?", **more)
    return caught.value.code


def fail_and_retry(url: str, model: OpenAiServer) -> None:
    model.then(failing(401))
    with Client(url) as client:
        with pytest.raises(RunFailedError) as caught:
            client.ask("u", "what?", [paint("lime")])
        again = client.retry(caught.value.run.run_id)
        assert client.wait(again.run_id).answer == "I see lime."


async def test_fifty_megabytes_arrive(mill: Mill, tmp_path: Path) -> None:
    await mill.started("up")
    files = [tmp_path / f"{number}.png" for number in range(5)]
    for file in files:
        file.write_bytes(paint("red"))
        with file.open("ab") as grown:
            grown.truncate(10 * 1024**2)
    words = [word for file in files for word in ("-i", file)]
    code, out, err = await run(mill, "message", "which?", *words)
    assert (code, out, err) == (0, "I see red, red, red, red, red.\n", "")
