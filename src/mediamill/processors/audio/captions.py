"""Captions as WebVTT: https://www.w3.org/TR/webvtt1/. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mediamill.processors.models.contract import Segment

CAPTIONS_FILE = "captions.vtt"
SHORTEST_SECONDS = 0.5  # a caption must be seen to be read
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")  # a line break inside would end a caption


def write_captions(segments: Iterable[Segment], language: str | None = None) -> str:
    """The whole file. Segments are in order; one that says nothing makes no caption."""
    header = "WEBVTT" if language is None else f"WEBVTT\nLanguage: {_plain(language)}"
    cues = [cue for segment in segments if (cue := _cue(segment)) is not None]
    return "\n\n".join([header, *cues]) + "\n"


def _cue(segment: Segment) -> str | None:
    text = escape(segment.text)
    if not text:
        return None
    start = max(0.0, segment.start_seconds)
    end = max(segment.end_seconds, start + SHORTEST_SECONDS)
    return f"{timestamp(start)} --> {timestamp(end)}\n{text}"


def escape(text: str) -> str:
    """Text that no player takes for markup, a time line or the end of a caption."""
    return _plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    return " ".join(_CONTROLS.sub(" ", text).split())


def timestamp(seconds: float) -> str:
    """`hours:minutes:seconds.thousandths`."""
    thousandths = round(seconds * 1000)
    minutes, thousandths = divmod(thousandths, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{thousandths // 1000:02}.{thousandths % 1000:03}"
