"""How figures read to people: counts, times, sizes of bars. Plain functions, given to the templates as filters."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from mediamill.staging.file_names import shown as file_name

_STEPS = ((60, "s"), (60, "min"), (24, "h"), (None, "d"))
PRIORITIES = ("high", "normal", "low")
# What a state looks like; its name is always there as text too.
TONES = {
    "running": "accent",
    "busy": "accent",
    "finished": "good",
    "completed": "good",
    "active": "good",
    "idle": "good",
    "scheduled": "warn",
    "held": "warn",
    "paused": "warn",
    "dead": "bad",
    "disabled": "bad",
    "connected": "good",
    "connecting": "warn",
    "starting": "warn",
    "installing": "warn",
    "pairing": "warn",
    "failed": "bad",
    "logged_out": "bad",
    "token_refused": "bad",
    "conflict": "bad",
    "ready": "good",
    "processing": "accent",
    "in_progress": "accent",
    "pending": "warn",
    "allowed": "good",
    "blocked": "bad",
    "open": "warn",
}
_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(number: int | None) -> str:
    """With separators: 12,345."""
    return "–" if number is None else f"{number:,}"


def span(seconds: float) -> str:
    """A length of time in its largest unit: 42 s, 5 min, 3 h, 2 d."""
    left = max(0.0, seconds)
    for size, unit in _STEPS:
        if size is None or left < size:
            return f"{int(left)} {unit}"
        left /= size
    raise AssertionError


def since(moment: datetime | None) -> str:
    """How long it is since then."""
    return "–" if moment is None else span((datetime.now(UTC) - moment).total_seconds())


def until(moment: datetime | None) -> str:
    """How long it is until then."""
    return "–" if moment is None else span((moment - datetime.now(UTC)).total_seconds())


def plain_number(value: float | str) -> str:
    """A number for a field of a form: 60 rather than 60.0; a text as it is."""
    return f"{value:.15g}" if isinstance(value, int | float) else value


def tone(state: str) -> str:
    """The colour of a state."""
    return TONES.get(state, "quiet")


def share(part: float, whole: float) -> str:
    """A part as a number between 0 and 100, for a bar; what is there at all is seen."""
    if part <= 0 or whole <= 0:
        return "0"
    return f"{max(0.8, min(100.0, 100 * part / whole)):.2f}"


def pretty(value: Any) -> str:
    """JSON for reading."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def clock(moment: datetime | None) -> str:
    """A time of the day, as scripts and machines write it."""
    return "–" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def day(moment: datetime | date) -> str:
    """A day, with the year where it is another one than this."""
    this_year = moment.year == datetime.now(UTC).year
    return moment.strftime("%A, %-d %B" if this_year else "%A, %-d %B %Y")


def time_of_day(moment: datetime) -> str:
    """Hours and minutes."""
    return moment.strftime("%H:%M")


def size(amount: float | None, unit: str = "B") -> str:
    """Bytes, or another unit with the same steps: 640 kB, 3.4 MB; with `bit/s`: 3.4 Mbit/s."""
    if amount is None:
        return "–"
    for step, name in _SIZES:
        if amount >= step:
            number = amount / step
            return f"{number:.0f} {name}{unit}" if number >= 100 else f"{number:.1f} {name}{unit}"
    return f"{amount:.0f} {unit}"


def playtime(seconds: float | None) -> str:
    """How long something plays: 0:42, 1:02:03."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def shorten(text: str, most: int) -> str:
    """The beginning of what may be long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def in_path(text: str) -> str:
    """Any text as one piece of an address."""
    return quote(text, safe="")


def mark_code(text: str) -> Markup:
    """`This` as code; everything else as it is."""
    parts = re.split(r"`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


FILTERS = {
    "file_name": file_name,
    "mark_code": mark_code,
    "in_path": in_path,
    "shorten": shorten,
    "day": day,
    "time_of_day": time_of_day,
    "count": count,
    "since": since,
    "until": until,
    "tone": tone,
    "pretty": pretty,
    "clock": clock,
    "size": size,
    "playtime": playtime,
    "plain_number": plain_number,
    "span": span,
}
