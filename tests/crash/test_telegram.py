"""The process of a bot on Telegram killed with -9 at every step: no update is lost, and none is taken twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mediamill.conversations.bots import BotConfig, create_bot, start_bot
from mediamill.testing.telegram_server import TOKEN, TelegramServer
from tests.crash.processes import in_thread
from tests.telegram.crash_program import TAKEN, live, write_all
from tests.telegram.grounds import png

POINTS = [
    "begin_life/after",
    "getUpdates/before",
    "getUpdates/after",  # had, not kept
    "keep_updates/before",
    "keep_updates/after",  # not committed
    "keep_updates/committed",  # kept, not acknowledged
    "getUpdates/before/2",
    "getUpdates/after/2",  # acknowledged
    "next_updates/after/2",
    "accept/before",  # before the first text is a message
    "accept/after",
    "accept/committed",  # a message, without its run
    "add_run/before",
    "add_run/after",
    "claim_pending/after",
    "end_update/after/2",  # the run is made, nothing is committed
    "end_update/committed/2",
    "getFile/before",
    "getFile/after",  # in the middle of a download
    "purge_expired/before/2",  # the image is here, not saved
    "count_images/after",
    "count_images/committed",  # saved
    "end_update/after/3",
    "end_update/committed/4",
    "accept/committed/2",
    "add_run/after/2",  # the run that takes the album
    "claim_pending/after/2",
    "insert_jobs/after",  # the voice note
    "note_image_saved/after",  # the image that has a caption
    "note_image_saved/committed",
    "move_reply written/after",
    # A message is on its way to Telegram: an answer or a greeting may come twice, an acknowledgement not at all.
    "sendMessage/before",
    "sendMessage/after",
    "note_sent/before",
    "note_sent/after",
    "move_ack/before",
    "move_ack/after",
    "move_ack/after/2",
    "sendMessage/after/2",
    "sendMessage/after/3",
    "move_reply sent/before",
]
ANSWERS = [f"answer to {text}" for text in ("one", "two", "words", "three")]
ACK = "Saved 2 images. Send text instructions."
ANOTHER = "Saved 1 image. Send text instructions."


@pytest.fixture
async def connection(new_url: str) -> AsyncIterator[Any]:
    """One for all that the test itself asks."""
    opened = await asyncpg.connect(new_url)
    yield opened
    await opened.close()


async def look(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await connection.fetch(sql)]


async def prepare(connection: Any) -> None:
    await connection.execute(TAKEN)
    config = {
        "providers": {"telegram": {"token": TOKEN}},
        "reply": {"by": "openai"},
        "access": {"mode": "open"},
    }
    await create_bot(connection, "bot", BotConfig.model_validate(config))
    await start_bot(connection, "bot")


@pytest.fixture(scope="module")
def lives() -> Iterator[subprocess.Popen[str]]:
    """The program, ready to live and die."""
    words = [sys.executable, "-m", "tests.telegram.crash_program"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()


def run_until_killed(lives: subprocess.Popen[str], *words: object) -> None:
    assert lives.stdin is not None
    assert lives.stdout is not None
    print(json.dumps([str(word) for word in words]), file=lives.stdin, flush=True)
    assert lives.stdout.readline().strip() == "-9"


@pytest.mark.spec("I5", "I7", "I8")
@pytest.mark.parametrize("point", POINTS)
async def test_killed_there_it_goes_on_and_every_update_is_taken_once(
    lives: subprocess.Popen[str], new_url: str, connection: Any, tmp_path: Path, point: str
) -> None:
    await prepare(connection)
    with TelegramServer() as telegram:
        write_all(telegram)
        await in_thread(run_until_killed, lives, new_url, tmp_path, telegram.url, point)
        await live(new_url, tmp_path, telegram.url)
        said = Counter(telegram.texts())
        assert telegram.waiting == []
    assert await look(connection, "select state, count(*) from telegram_updates group by 1") == [("done", 8)]
    messages = await look(connection, "select content from queues where source = 'user'")
    assert sorted(row[0] for row in messages) == ["one", "three", "two", "words"]
    taken = dict(await look(connection, "select text, images from taken"))
    assert len(await look(connection, "select from taken")) == 4
    # The words of the voice note may be there before or after the photos that came later.
    assert taken["one"] == []
    assert taken["two"] == [png(1), png(2)]
    rest = await look(connection, "select image_bytes from input_images where run_id is null")
    assert sorted([*taken["three"], *taken["words"], *(row[0] for row in rest)]) == sorted([png(3), png(4)])
    assert png(3) in [*taken["three"], *taken["words"]]
    assert await look(connection, "select state, count(*) from replies group by 1") == [("sent", 4)]
    assert all(said[answer] for answer in ANSWERS), said
    assert sum(said.values()) - len(said) <= 1, said  # only an answer that was on its way
    lost = await look(connection, "select saved from telegram_acks where message_id is null")
    assert len(lost) <= 1  # only an acknowledgement that was on its way, and has arrived or not
    assert said[ACK] == 1 or (2,) in lost
    assert said[ANOTHER] == 1 or (1,) in lost
    assert max(said[ACK], said[ANOTHER]) <= 1
