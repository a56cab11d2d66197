"""What somebody sees who waits for an answer: a sign that something goes on, then the answer as it comes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mediamill.cli.terminal import clean, console, warn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mediamill.client import Run, RunEvent
    from mediamill.client.body import Progress

BAR_BYTES = 1_000_000  # less than that is sent before one could read it
WAITING = {"queued": "waiting for its turn …", "running": "thinking …"}


class AnswerPrinter:
    """Writes an answer as it grows. When it begins anew, only what differs from what stands there is written."""

    def __init__(self) -> None:
        self._pieces: list[str] = []  # of the answer so far
        self._void = ""  # what stands behind them, of an earlier try
        self._in_line = False

    def add(self, text: str) -> None:
        """The answer goes on."""
        self._pieces.append(text)
        if self._void.startswith(text):
            self._void = self._void.removeprefix(text)
        elif text.startswith(self._void):
            self._write(text.removeprefix(self._void))
            self._void = ""
        else:
            self._write_anew()

    def begin_anew(self) -> None:
        """What came so far is void; it stays where it is until it is known to be different."""
        self._void = "".join(self._pieces) + self._void
        self._pieces = []

    def end(self, answer: str | None = None) -> None:
        """The whole answer, if it is known; the cursor is left at the beginning of a line."""
        if answer is not None and answer != "".join(self._pieces):
            self.begin_anew()
            self.add(answer)
        if answer is not None and self._void:
            self._write_anew()
        self._end_line()

    def _write_anew(self) -> None:
        self._end_line()
        warn("the answer begins anew:", style="yellow")
        self._write("".join(self._pieces))
        self._void = ""

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(clean(text.replace("\r", "")))
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._write("\n")


class Spinner:
    """Something that moves on stderr, if that is a terminal."""

    def __init__(self) -> None:
        screen = console(stderr=True)
        self._status: Any = screen.status("") if screen.is_terminal else None

    def say(self, text: str) -> None:
        """Begin, or say something else."""
        if self._status is not None:
            self._status.update(text)
            self._status.start()

    def stop(self) -> None:
        """Leave nothing behind."""
        if self._status is not None:
            self._status.stop()


def show_answer(events: Iterable[RunEvent]) -> Run:
    """Print the answer as it comes; the run as it ended."""
    from mediamill.client import Finished, Restarted, StateChanged, TextPiece

    printer, spinner = AnswerPrinter(), Spinner()
    spinner.say(WAITING["running"])
    begun = False
    try:
        for event in events:
            match event:
                case StateChanged(state) if state in WAITING and not begun:
                    spinner.say(WAITING[state])
                case TextPiece(text):
                    begun = True
                    spinner.stop()
                    printer.add(text)
                case Restarted():
                    printer.begin_anew()
                case Finished(run):
                    spinner.stop()
                    printer.end(run.answer if run.state == "completed" else None)
                    return run
    except (Exception, KeyboardInterrupt) as error:
        spinner.stop()
        if not isinstance(error, BrokenPipeError):
            printer.end()
        raise
    raise AssertionError


@contextmanager
def upload_bar(count: int, byte_size: int) -> Iterator[Progress | None]:
    """A bar while large images are sent; nothing where nobody looks."""
    screen = console(stderr=True)
    if byte_size < BAR_BYTES or not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from mediamill.cli.terminal import plural

    columns = (TextColumn("{task.description}"), BarColumn(30), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(f"sending {plural(count, 'image')}")
        yield lambda sent, total: bar.update(task, completed=sent, total=total)
