"""Borders of segments, and pictures that are shown again to keep them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.processors.transcode.timeline import Borders, Shown

pytestmark = pytest.mark.spec("V4")

MILLISECONDS = Borders(1000, Fraction(4), Fraction(1, 25))


def arranged(borders: Borders, *times: int, last: int = 40) -> list[tuple[int, int]]:
    pictures = [Shown(time, last, time) for time in times]
    return [(beat.segment, beat.ticks) for beat in borders.arrange(pictures)]


def test_a_picture_nearest_to_the_border_begins_the_segment() -> None:
    film = Borders(24_000, Fraction(4), Fraction(1001, 24_000))
    beats = arranged(film, *(number * 1001 for number in range(200)), last=1001)
    starts = [next(ticks for segment, ticks in beats if segment == wanted) for wanted in (0, 1, 2)]
    assert starts == [0, 96 * 1001, 192 * 1001]  # 4.004 s, 8.008 s: 96 pictures are nearer to 4 s than 95


def test_a_picture_that_stands_over_borders_is_shown_again_at_each() -> None:
    beats = arranged(MILLISECONDS, 0, 1000, 9500, last=3000)
    assert beats == [(0, 0), (0, 1000), (1, 4000), (2, 8000), (2, 9500), (3, 12_000), (3, 12_500)]


def test_a_picture_a_little_late_is_no_reason_to_repeat() -> None:
    assert arranged(MILLISECONDS, 3960, 4050) == [(0, 3960), (1, 4050), (1, 4090)]


@given(st.lists(st.integers(1, 9000), min_size=2, max_size=40), st.integers(1, 38))
def test_it_does_not_matter_where_decoding_began(steps: list[int], skipped: int) -> None:
    times = [sum(steps[:count]) for count in range(len(steps))]
    whole = arranged(MILLISECONDS, *times)
    later = arranged(MILLISECONDS, *times[min(skipped, len(times) - 1) :])
    assert whole[-len(later) :] == later
    lengths = [segment for segment, _ in whole]
    assert sorted(set(lengths)) == list(range(lengths[-1] + 1))
