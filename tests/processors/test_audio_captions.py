from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.processors.audio.captions import timestamp, write_captions
from mediamill.processors.models.contract import Segment

CUE = re.compile(r"(\d{2,}):([0-5]\d):([0-5]\d)\.(\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d)\.(\d{3})")


def cues(text: str) -> list[tuple[float, float, str]]:
    """What a player makes of the file: blocks between empty lines, a time line, then text."""
    header, *blocks = text.removesuffix("\n").split("\n\n")
    assert header.split("\n")[0] == "WEBVTT"
    found = []
    for block in blocks:
        times, words = block.split("\n")
        match = CUE.fullmatch(times)
        assert match is not None
        h1, m1, s1, t1, h2, m2, s2, t2 = map(int, match.groups())
        start, end = h1 * 3600 + m1 * 60 + s1 + t1 / 1000, h2 * 3600 + m2 * 60 + s2 + t2 / 1000
        found.append((start, end, html.unescape(words)))
    return found


@pytest.mark.spec("V13")
def test_segments_become_captions_with_their_times() -> None:
    text = write_captions([Segment(0, 1.5, "Hello."), Segment(3661.25, 3663, "An hour later.")], "en")
    assert cues(text) == [(0, 1.5, "Hello."), (3661.25, 3663, "An hour later.")]
    assert text.startswith("WEBVTT\nLanguage: en\n\n00:00:00.000 --> 00:00:01.500\nHello.\n\n01:01:01.250")


@pytest.mark.spec("V13")
def test_what_is_said_is_never_taken_for_markup_or_times() -> None:
    said = "a < b & c > d\n\n00:00:09.000 --> 00:00:10.000\n<script>\u2028x\r"
    [(_, _, heard)] = cues(write_captions([Segment(1, 2, said)]))
    assert heard == "a < b & c > d 00:00:09.000 --> 00:00:10.000 <script> x"
    assert "-->" not in write_captions([Segment(1, 2, said)]).split("\n", 3)[3]


@pytest.mark.spec("V13")
def test_a_caption_is_shown_long_enough_and_an_empty_one_not_at_all() -> None:
    assert cues(write_captions([Segment(1, 1, "Quick."), Segment(2, 3, " \n ")])) == [(1, 1.5, "Quick.")]


def test_nothing_said_is_still_a_file_of_captions() -> None:
    assert write_captions([]) == "WEBVTT\n"


def test_times_are_rounded_without_sixty_seconds() -> None:
    assert timestamp(59.9999) == "00:01:00.000"
    assert timestamp(3599.9996) == "01:00:00.000"
    assert timestamp(360_000) == "100:00:00.000"


@given(st.text(), st.floats(0, 400_000), st.floats(0, 400_000))
def test_any_text_makes_a_file_that_can_be_read(text: str, start: float, end: float) -> None:
    read = cues(write_captions([Segment(start, end, text)]))
    assert len(read) <= 1
    assert all(shown < gone for shown, gone, _ in read)
