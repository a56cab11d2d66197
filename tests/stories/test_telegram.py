"""A bot on Telegram as its owner and its users meet it: a real server and worker, killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.testing.model_server import Handler, ModelServer
from mediamill.testing.openai_server import WORDS, OpenAiServer, held_stream, images_in
from mediamill.testing.telegram_server import TOKEN, TelegramServer
from tests.agents.conftest import text_of
from tests.conftest import wait_until
from tests.crash.processes import Mill
from tests.ports import free_port

SAMPLES = Path(__file__).parents[2] / "samples"
PHOTO, SCREEN = (SAMPLES / "photo.jpg").read_bytes(), (SAMPLES / "screenshot.png").read_bytes()
ACK = "Saved 2 images. Send text instructions."
SECONDS = 120.0


def describe(messages: list[Any]) -> str:
    """The model of the story: what it was told last, and how many images came with that."""
    last = messages[-1]
    return f"{len(images_in(last['content']))} images: {text_of(last).strip()}"


class Story:
    """One bot, `shop`; Telegram and the model are on loopback."""

    def __init__(self, mill: Mill, telegram: TelegramServer, model: OpenAiServer) -> None:
        self.mill, self.telegram, self.model = mill, telegram, model
        self.expected: list[str] = []

    async def until_said(self, *more: str) -> None:
        """Nothing else is said, and nothing twice."""
        self.expected += more

        async def said() -> bool:
            return self.telegram.texts() == self.expected

        try:
            await wait_until(said, SECONDS)
        except TimeoutError:
            said_by_server = self.mill.processes[-1].said[-3_000:]
            assert self.telegram.texts() == self.expected, said_by_server
        # Whoever is killed before it is noted says it once more.
        await self.mill.until("select not exists (select from replies where state <> 'sent')")

    async def until(self, event: threading.Event) -> None:
        assert await asyncio.to_thread(event.wait, SECONDS)


@pytest.fixture
async def story(new_url: str, tmp_path: Path) -> AsyncIterator[Story]:
    with TelegramServer() as telegram, OpenAiServer(say=describe) as model:
        settings = {
            "MEDIAMILL_PORT": str(free_port()),
            "MEDIAMILL_TELEGRAM_URL": telegram.url,
            "MEDIAMILL_OPENAI_URL": f"{model.url}/v1",
            "MEDIAMILL_TEXT_MODEL": "test-model",
            "MEDIAMILL_SPEECH": "openai",
            "MEDIAMILL_INGEST_SECONDS": "0.1",
        }
        mill = Mill(tmp_path, new_url, settings)
        yield Story(mill, telegram, model)
        mill.close()


@pytest.mark.spec("I5", "I6", "I8")
async def test_images_voice_notes_and_texts_are_answered_once_whatever_is_killed(
    story: Story, tmp_path: Path
) -> None:
    mill, telegram = story.mill, story.telegram
    up = await mill.started("up")
    token = tmp_path / "token.txt"
    token.write_text(f"{TOKEN}\n")
    code, said = await mill.say(
        "bots", "create", "shop", "--telegram", "--token-file", token, "--reply", "openai", "--open"
    )
    assert (code, "shop is created and started" in said) == (0, True), said

    telegram.send_album([PHOTO, SCREEN])
    await story.until_said(ACK)
    telegram.say("describe these")
    await story.until_said("2 images: describe these")
    telegram.send_file("voice", (SAMPLES / "voice.ogg").read_bytes())
    await story.until_said(f"0 images: {WORDS}")
    assert await mill.one("select count(*) from input_images") == 0

    # Killed in the middle of a download, with the text that waits behind it.
    began, go_on = threading.Event(), threading.Event()
    telegram.fault("file", _slow(began, go_on))
    telegram.send_photo(PHOTO)
    telegram.say("what is this?")
    await story.until(began)
    up.kill()
    go_on.set()
    telegram.say("are you there?")
    up = await mill.started("up")
    await story.until_said(
        "Saved 1 image. Send text instructions.", "1 images: what is this?", "0 images: are you there?"
    )

    # Killed while the model answers: its images are still there.
    go_on = threading.Event()
    asked = len(story.model.seen)
    story.model.then(held_stream("1 ima", "ges", go_on))
    telegram.send_album([SCREEN, PHOTO], caption="and these?")
    await wait_until(lambda: _more(story.model, asked), SECONDS)
    os.kill(up.pid, signal.SIGKILL)
    up.popen.wait(30)
    go_on.set()
    assert await mill.one("select count(*) from input_images where run_id is not null") == 2
    up = await mill.started("up")
    await story.until_said("2 images: and these?")
    await mill.until("select not exists (select from replies where state <> 'sent')")

    assert await mill.one("select count(*) from runs where state <> 'completed'") == 0
    assert await mill.one("select count(*) from input_images") == 0
    assert await mill.one("select count(*) from telegram_updates where state <> 'done'") == 0
    assert telegram.texts() == story.expected
    code, said = await mill.say("bots", "show", "shop", "--json")
    assert code == 0
    assert '"connected"' in said
    assert all(TOKEN not in process.said for process in mill.processes)
    mill.assert_no_traceback()


async def _more(model: OpenAiServer, asked: int) -> bool:
    return len(model.seen) > asked


def _slow(began: threading.Event, go_on: threading.Event) -> Any:
    """A file whose first bytes come, and the rest when it may."""

    def act(handler: Handler) -> None:
        server: ModelServer = handler.server.model_server  # type: ignore[attr-defined]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(PHOTO)))
        handler.end_headers()
        handler.wfile.write(PHOTO[:100])
        handler.wfile.flush()
        began.set()
        while not go_on.wait(0.02) and not server.closed.is_set():
            pass
        handler.wfile.write(PHOTO[100:])

    return act
