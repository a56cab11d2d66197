"""The seek track: WebVTT that tells which part of which sprite sheet shows which seconds. Pure text.

Written by workers, which may be hostile, and handed to browsers: only the very lines that we write are read back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mediamill.errors import InvalidError

MOST_PREVIEWS = 10_000
MOST_CHARACTERS = 4_000_000
TIME = r"([0-9]{2,4}):([0-5][0-9]):([0-5][0-9])\.([0-9]{3})"
TIME_LINE = re.compile(rf"{TIME} --> {TIME}")
PLACE_LINE = re.compile(r"(sprite-[0-9]{3}\.jpg)#xywh=([0-9]{1,5}),([0-9]{1,5}),([0-9]{1,5}),([0-9]{1,5})")


class BadSeekTrackError(InvalidError):
    """The seek track is not one of ours."""

    code = "bad_seek_track"


@dataclass(frozen=True, slots=True)
class Preview:
    """One little picture: when it is shown, and where it is."""

    start_ms: int
    end_ms: int
    sheet: str  # sprite-000.jpg
    x: int
    y: int
    width: int
    height: int


def write_seek_track(previews: Sequence[Preview]) -> str:
    """The text of seek.vtt."""
    blocks = [
        f"{_time(one.start_ms)} --> {_time(one.end_ms)}\n"
        f"{one.sheet}#xywh={one.x},{one.y},{one.width},{one.height}\n"
        for one in previews
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def read_seek_track(text: str) -> list[Preview]:
    """The pictures of a seek.vtt as we write it; anything else is refused."""
    if len(text) > MOST_CHARACTERS:
        raise BadSeekTrackError(f"it has more than {MOST_CHARACTERS} characters")
    head, *blocks = text.removesuffix("\n").split("\n\n")
    if head != "WEBVTT":
        raise BadSeekTrackError("it does not begin with WEBVTT")
    if len(blocks) > MOST_PREVIEWS:
        raise BadSeekTrackError(f"it has more than {MOST_PREVIEWS} pictures")
    return [_read_block(number, block) for number, block in enumerate(blocks, 1)]


def _read_block(number: int, block: str) -> Preview:
    lines = block.split("\n")
    times = TIME_LINE.fullmatch(lines[0])
    place = PLACE_LINE.fullmatch(lines[1]) if len(lines) == 2 else None
    if times is None or place is None:
        raise BadSeekTrackError(
            f"picture {number}: times and a part of a sprite expected, not {block[:60]!r}"
        )
    start, end = _milliseconds(times.groups()[:4]), _milliseconds(times.groups()[4:])
    if start >= end:
        raise BadSeekTrackError(f"picture {number} ends before it starts")
    return Preview(start, end, place[1], *(int(place[group]) for group in range(2, 6)))


def _time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"


def _milliseconds(parts: Sequence[str]) -> int:
    hours, minutes, seconds, rest = (int(part) for part in parts)
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest
