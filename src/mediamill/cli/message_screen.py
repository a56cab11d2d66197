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
        self._shown = ""
        self._answer = ""

    def add(self, text: str) -> None:
        """The answer goes on."""
        self._show(self._answer + text)

    def begin_anew(self) -> None:
        """What came so far is void; it stays where it is until it is known to be different."""
        self._answer = ""

    def end(self, answer: str | None = None) -> None:
        """The whole answer, if it is known; the cursor is left at the beginning of a line."""
        if answer is not None:
            self._show(answer, whole=True)
        self._end_line()

    def _show(self, answer: str, *, whole: bool = False) -> None:
        self._answer = answer
        if self._shown.startswith(answer) and not (whole and self._shown != answer):
            return
        if not answer.startswith(self._shown):
            self._end_line()
            warn("the answer begins anew:", style="yellow")
            self._shown = ""
        sys.stdout.write(clean(answer[len(self._shown) :].replace("\r", "")))
        sys.stdout.flush()
        self._shown = answer

    def _end_line(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._shown += "\n"


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
    except BaseException:
        spinner.stop()
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
