"""`mediamill chat` as its user meets it: a real server, a real worker, a real terminal."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash.processes import Mill, in_thread, until_files
from tests.ports import free_port
from tests.stories.terminals import Terminal

SAMPLES = Path(__file__).parents[2] / "samples"
TALK = "leisure to consider"


@pytest.fixture
async def mill(new_url: str, tmp_path: Path) -> AsyncIterator[Mill]:
    """A data folder and a port of its own."""
    mill = Mill(tmp_path, new_url, settings={"MEDIAMILL_PORT": str(free_port())})
    yield mill
    mill.close()


async def run(mill: Mill, *words: object, lines: str = "") -> tuple[int, str, str]:
    """A command that ends by itself: its exit code, what it said, and what it said beside that."""

    def wait() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mediamill", *map(str, words)]
        return subprocess.run(
            command, env=mill.environment, input=lines, capture_output=True, text=True, timeout=300
        )

    done = await in_thread(wait)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.spec("C10", "C26")
async def test_a_voice_note_goes_in_and_its_text_and_an_answer_come_out(mill: Mill, tmp_path: Path) -> None:
    code, _, beside = await run(mill, "chat", "hello")
    assert code == 1
    assert "error: no mediamill runs at http://127.0.0.1:" in beside
    assert "fix: start it: mediamill up" in beside

    up = await mill.started("up")
    await up.until_said("mediamill chat")
    code, said, beside = await run(mill, "chat", "hello", "--as", "Ann B.")
    assert (code, said) == (0, "demo: You said: hello\n")
    assert "made a bot demo that echoes" in beside

    code, said, _ = await run(mill, "chat", "-f", SAMPLES / "voice.ogg", "listen", "--as", "Ann B.", "--json")
    assert code == 0
    [sent] = json.loads(said)["messages"]
    assert TALK in sent["text"]
    assert sent["content"] == f"listen\n\n{sent['text']}"
    assert sent["answer"] == f"You said: {sent['content']}"
    _, said, _ = await run(mill, "bots", "messages", "demo", "chat", "Ann-B", "--json")
    assert [message["id"] for message in json.loads(said)] == [1, 2, 3, 4]
    await until_files(tmp_path / "data" / "pending_media", 0)

    broken = tmp_path / "broken.jpg"
    broken.write_bytes((SAMPLES / "photo.jpg").read_bytes()[:300])
    code, said, _ = await run(mill, "chat", "-f", broken)
    assert code == 1
    assert "✗ broken.jpg: the JPEG image is damaged" in said
    await until_files(tmp_path / "data" / "pending_media", 0)  # no other try would help
    assert list((tmp_path / "data").glob("failed_media/*")) == []
    mill.assert_no_traceback()


async def test_a_bot_that_is_not_there_or_does_not_run_is_told(mill: Mill) -> None:
    await mill.started("up")
    code, _, beside = await run(mill, "chat", "hello", "--bot", "nobody")
    assert (code, "there is no bot nobody" in beside) == (1, True)
    await run(mill, "bots", "create", "demo", "--no-start")
    code, _, beside = await run(mill, "chat", "hello", "--bot", "demo")
    assert (code, "fix: mediamill bots start demo" in beside) == (1, True)
    code, said, beside = await run(mill, "chat", "hello")  # it is silent: nothing is waited for
    assert (code, said) == (0, "")
    assert "started the bot demo" in beside
    code, _, beside = await run(mill, "chat", "-f", "nowhere.ogg")
    assert (code, "there is no file nowhere.ogg" in beside) == (1, True)


async def test_a_chat_in_a_terminal(mill: Mill) -> None:
    await mill.started("up")
    terminal = Terminal("chat", "--as", "Ann", environment=mill.environment)
    try:
        await in_thread(_talk, terminal)
    finally:
        terminal.close()
    mill.assert_no_traceback()


def _talk(terminal: Terminal) -> None:
    terminal.until("> ")
    terminal.type("hello\n")
    terminal.until("demo: You said: hello")
    terminal.type(f"/file {shlex.quote(str(SAMPLES / 'voice.ogg'))} listen\n")
    terminal.until("⠙ voice.ogg")
    terminal.type("typed meanwh")
    terminal.until("✓ voice.ogg")
    terminal.until(TALK)
    terminal.until("> typed meanwh")
    terminal.type("ile\n")
    terminal.until("demo: You said: typed meanwhile")
    terminal.type("/file nowhere.ogg\n")
    terminal.until("not sent: there is no file nowhere.ogg")
    terminal.type("\x04")
    assert terminal.until_gone() == 0


async def test_lines_from_a_pipe_are_said_and_answered(mill: Mill) -> None:
    await mill.started("up")
    lines = f"one\n\n'{SAMPLES / 'notes.docx'}'\ntwo\n"
    code, said, _ = await run(mill, "chat", lines=lines)
    assert code == 0
    assert "demo: You said: one" in said
    assert "demo: You said: two" in said
    assert "✓ notes.docx" in said
    assert "Summer fair" in said
