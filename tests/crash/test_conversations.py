"""A bot's process killed with -9 at every step of a message's way: nothing is lost, stored twice or answered twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mediamill.conversations.bots import BotConfig, create_bot, start_bot
from tests.crash.chat_program import NETWORK, SAID, live
from tests.crash.processes import in_thread

POINTS = [
    "lock_bot/before",
    "open_arrivals/after",
    "accept/before",
    "accept/after",
    "accept/committed",  # before the callbacks
    "accept/before/2",
    "insert_jobs/after",  # placeholder and job, not committed
    "accept/committed/2",
    "add_reply/before",  # after the callbacks
    "add_reply/after",
    "store_messages/before",
    "store_messages/after",
    "store_messages/committed",
    "save_results/after",
    "save_results/committed",
    "finish_arrivals/before",  # the result is reaped, but not committed
    "finish_arrivals/after",
    "finish_arrivals/committed",  # between reap and memory
    "move_reply written/before",
    "move_reply written/after",
    "send/before",
    "send/after",
    "move_reply sent/before",
    "move_reply sent/after",
    "move_reply sent/after/2",
]


async def look(url: str, sql: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


async def prepare(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(NETWORK)
        await create_bot(
            connection,
            "bot",
            BotConfig.model_validate(
                {"providers": {"line": {}}, "reply": {"by": "echo"}, "access": {"mode": "open"}}
            ),
        )
        await start_bot(connection, "bot")
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def lives() -> Iterator[subprocess.Popen[str]]:
    """The program, ready to live and die."""
    words = [sys.executable, "-m", "tests.crash.chat_program"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()


def run_until_killed(lives: subprocess.Popen[str], url: str, folder: Path, point: str) -> None:
    assert lives.stdin is not None
    assert lives.stdout is not None
    print(json.dumps([url, str(folder), point]), file=lives.stdin, flush=True)
    assert lives.stdout.readline().strip() == "-9"


@pytest.mark.spec("C2", "C8", "C10", "C22", "C23", "E11")
@pytest.mark.parametrize("point", POINTS)
async def test_killed_there_it_goes_on_and_everything_is_there_once(
    lives: subprocess.Popen[str], new_url: str, tmp_path: Path, point: str
) -> None:
    await prepare(new_url)
    await in_thread(run_until_killed, lives, new_url, tmp_path, point)
    await live(new_url, tmp_path)
    answers = [f"You said: {text}" for text in SAID]
    stored = await look(new_url, "select content from queues order by source desc, id")
    assert [row[0] for row in stored][:3] == list(SAID)
    assert sorted(row[0] for row in stored[3:]) == sorted(answers)
    assert sorted(row[0] for row in await look(new_url, "select text from network")) == sorted(answers)
    assert await look(new_url, "select state, count(*) from replies group by 1") == [("sent", 3)]
    assert await look(new_url, "select state, count(*) from arrivals group by 1") == [("stored", 6)]
    for table in ("jobs", "dead_jobs"):
        assert await look(new_url, f"select count(*) from {table}") == [(0,)]
