"""What the terminal gets: tables for people, JSON for scripts, and the words for times, sizes and states.

Rich is imported when something is drawn, so that `--json` and `--help` stay quick.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from mediamill import logs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

log = logging.getLogger("mediamill.cli")

STYLES = {
    "queued": "blue",
    "scheduled": "magenta",
    "running": "cyan",
    "held": "yellow",
    "completed": "green",
    "finished": "green",
    "dead": "red",
    "failed": "red",
    "active": "cyan",
    "idle": "green",
    "busy": "cyan",
    "paused": "yellow",
    "offline": "dim",
    "disabled": "red",
    "pending": "blue",
    "processing": "cyan",
    "in progress": "cyan",
    "in_progress": "cyan",
    "ready": "green",
    "skipped": "dim",
    "deleted": "yellow",
    "ok": "green",
    "note": "yellow",
    "fault": "red",
}
# What a file or a payload says must not steer the terminal: escape sequences are shown, not obeyed.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PIPE_COLUMNS = 200
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def console(*, stderr: bool = False) -> Console:
    """The terminal; plain and wide when it is a file or a pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_COLUMNS
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def bytes_bar(*, hidden: bool = False) -> Progress:
    """Bars of bytes with their speed and the time that is left, where somebody looks."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    screen = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    return Progress(*columns, console=screen, transient=True, disable=hidden or not screen.is_terminal)


def say(*parts: Any, style: str | None = None) -> None:
    """A line for people; for machines, if a process that stays speaks to them."""
    if logs.is_json():
        logs.tell(log, "said", text=" ".join(clean(part) for part in parts).strip())
        return
    console().print(*(clean(part) for part in parts), style=style, soft_wrap=True)


def warn(text: str, style: str | None = None) -> None:
    """A line beside the output, so that scripts do not stumble over it."""
    if logs.is_json():
        logs.tell(log, "warned", text=clean(text).strip())
        return
    console(stderr=True).print(clean(text), style=style, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, default=_plain, ensure_ascii=False) + "\n")


def print_line(value: Any) -> None:
    """One JSON document on one line, at once."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def clean(value: Any) -> str:
    """Text without anything that steers a terminal."""
    return _CONTROLS.sub("�", str(value))


def one_line(value: Any, most: int = 80) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(clean(value or "").split())
    return text if len(text) <= most else text[: most - 1] + "…"


def styled(word: str) -> Text:
    """A state in its colour."""
    from rich.text import Text

    return Text(clean(word), style=STYLES.get(word, ""))


def make_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table with a line for each row. >name is aligned to the right, ~name gives way when the terminal is narrow.

    A column in which nothing stands is left out.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    shown = [number for number in range(len(columns)) if any(row[number] not in (None, "") for row in rows)]
    for number in shown:
        name = columns[number]
        justify: Literal["right", "left"] = "right" if name.startswith(">") else "left"
        table.add_column(name.lstrip(">~"), justify=justify, no_wrap=not name.startswith("~"))
    for row in rows:
        table.add_row(*(_cell(row[number]) for number in shown))
    return table


def _cell(value: Any) -> Text:
    from rich.text import Text

    if isinstance(value, Text):
        return value
    return Text(clean("" if value is None else value), no_wrap=True, overflow="ellipsis")


def draw(what: Table) -> None:
    """Onto the terminal; into a file or a pipe without the blanks that fill the last column."""
    screen = console()
    if screen.is_terminal:
        screen.print(what)
        return
    with screen.capture() as captured:
        screen.print(what)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
    """A table, or a sentence that says why there is none."""
    if rows:
        draw(make_table(columns, rows))
    else:
        say(empty, style="dim")


def print_fields(fields: Mapping[str, Any]) -> None:
    """Names and values, one a line; what is not known is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields.items():
        if value is not None:
            grid.add_row(name, value if isinstance(value, Text) else clean(value))
    draw(grid)


def span(seconds: float) -> str:
    """A length of time, in the two units that matter."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    left = int(seconds)
    for size, unit in _UNITS:
        if left >= size:
            count, rest = divmod(left, size)
            smaller = {"d": (3_600, "h"), "h": (60, "min"), "min": (1, "s")}[unit]
            more = rest // smaller[0]
            return f"{count} {unit}" + (f" {more} {smaller[1]}" if more else "")
    return f"{left} s"


def ago(when: datetime | None) -> str:
    """How long since."""
    return "" if when is None else coarse((datetime.now(UTC) - when).total_seconds())


def coarse(seconds: float) -> str:
    """A length of time in one unit, for tables."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def clock(when: datetime | None) -> str | None:
    """A time with how far it is from now."""
    if when is None:
        return None
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S} ({until(when)})"


def until(when: datetime) -> str:
    """How far a time is from now."""
    seconds = (when - datetime.now(UTC)).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def size(count: float) -> str:
    """A number of bytes."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def plural(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
