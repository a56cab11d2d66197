"""What a chat looks like: plain lines for pipes, JSON for scripts, a live prompt with what is going on above it."""

from __future__ import annotations

import itertools
import shutil
import sys
from typing import TYPE_CHECKING, Any

from mediamill.cli.chat_session import Exchange
from mediamill.cli.terminal import clean, console, one_line, print_line, say, warn

if TYPE_CHECKING:
    from rich.text import Text

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PROMPT = "> "
UP, CLEAR_BELOW = "\x1b[{}A", "\x1b[J"


def report(exchange: Exchange) -> dict[str, Any]:
    """What came of one thing that was sent, for scripts."""
    message = exchange.message or {}
    return {
        "id": message.get("id"),
        "file": exchange.file,
        "said": exchange.said,
        "content": message.get("content") if exchange.is_ready else None,
        "text": exchange.text if exchange.file and exchange.is_ready and not exchange.failed_reason else None,
        "failed_reason": exchange.failed_reason,
        "answer": exchange.answer["content"] if exchange.answer else None,
        "answer_failed": exchange.answer_failed,
    }


class JsonScreen:
    """A line for each thing that is ready."""

    def show_media(self, exchange: Exchange) -> None:
        """See Screen."""
        print_line({"event": "media", **report(exchange)})

    def show_message(self, name: str, message: dict[str, Any]) -> None:
        """See Screen."""
        print_line(
            {"event": "message", "name": name, **{key: message[key] for key in ("id", "content", "source")}}
        )

    def show_fault(self, text: str) -> None:
        """See Screen."""
        warn(text, style="red")

    def show_pending(self, lines: list[str]) -> None:
        """Scripts do not watch."""


class SilentScreen(JsonScreen):
    """For one JSON document at the end."""

    def show_media(self, exchange: Exchange) -> None:
        """Told at the end."""

    def show_message(self, name: str, message: dict[str, Any]) -> None:
        """Told at the end."""


class PlainScreen:
    """Lines, without anything that moves."""

    def show_media(self, exchange: Exchange) -> None:
        """See Screen."""
        console().print(_media(exchange), soft_wrap=True)

    def show_message(self, name: str, message: dict[str, Any]) -> None:
        """See Screen."""
        console().print(_message(name, message), soft_wrap=True)

    def show_fault(self, text: str) -> None:
        """See Screen."""
        say(text, style="red")

    def show_pending(self, lines: list[str]) -> None:
        """Nothing moves here."""


class LiveScreen(PlainScreen):
    """At the bottom the prompt, if there is one, with what is typed; above it a line for each thing going on."""

    def __init__(self) -> None:
        self._pending: list[str] = []
        self._drawn = 0
        self._prompting = False
        self._frames = itertools.cycle(FRAMES)
        self._frame = FRAMES[0]

    def show_media(self, exchange: Exchange) -> None:
        """See Screen."""
        self._erase()
        super().show_media(exchange)
        self._draw()

    def show_message(self, name: str, message: dict[str, Any]) -> None:
        """See Screen."""
        self._erase()
        super().show_message(name, message)
        self._draw()

    def show_fault(self, text: str) -> None:
        """See Screen."""
        self._erase()
        super().show_fault(text)
        self._draw()

    def show_pending(self, lines: list[str]) -> None:
        """See Screen."""
        if lines != self._pending:
            self._erase()
            self._pending = lines
            self._draw()

    def tick(self) -> None:
        """The next picture of the spinner."""
        if self._pending:
            self._erase()
            self._frame = next(self._frames)
            self._draw()

    def begin_prompt(self) -> None:
        """The prompt is there from now on; whoever reads the line writes it first."""
        self._prompting = True

    def end_prompt(self, typed: str) -> None:
        """A line was typed: it stands above what is going on."""
        self._erase(_rows(PROMPT + typed))
        self._prompting = False
        say(PROMPT + typed, style="bold")
        self._draw()

    def close(self) -> None:
        """Leave a clean terminal."""
        self._erase()
        self._prompting, self._pending = False, []

    def _erase(self, below: int | None = None) -> None:
        """Back to the first row that we drew. `below`: the cursor is already so many rows below the prompt's first."""
        if below is None:
            below = _rows(PROMPT + _typed()) - 1 if self._prompting else 0
        up = self._drawn + below
        sys.stdout.write("\r" + (UP.format(up) if up else "") + CLEAR_BELOW)
        self._drawn = 0

    def _draw(self) -> None:
        width = _width()
        for line in self._pending:
            sys.stdout.write(one_line(f"{self._frame} {line}", width - 1) + "\n")
        self._drawn = len(self._pending)
        if self._prompting:
            sys.stdout.write(PROMPT + clean(_typed()))
        sys.stdout.flush()


def _media(exchange: Exchange) -> Text:
    from rich.text import Text

    name = one_line(exchange.file, 100)
    if exchange.failed_reason:
        return Text.assemble((f"✗ {name}: ", "bold red"), (clean(exchange.failed_reason), "red"))
    return Text.assemble((f"✓ {name}\n", "bold green"), _indented(exchange.text or "(no text in it)"))


def _message(name: str, message: dict[str, Any]) -> Text:
    from rich.text import Text

    colour = "bold cyan" if message["source"] == "bot" else "bold"
    return Text.assemble((f"{one_line(name, 40)}: ", colour), clean(message["content"]))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in clean(text).splitlines())


def _typed() -> str:
    """What stands on the prompt's line so far."""
    try:
        import readline
    except ImportError:
        return ""
    return readline.get_line_buffer()


def _width() -> int:
    return max(20, shutil.get_terminal_size().columns)


def _rows(text: str) -> int:
    from rich.cells import cell_len

    return max(1, -(-cell_len(text) // _width()))
