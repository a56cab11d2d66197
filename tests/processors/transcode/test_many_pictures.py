"""More pictures than players are made for: which are shown does not depend on where decoding began."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mediamill.processors.transcode.timeline import Beat, Borders, Shown, one_of

pytestmark = pytest.mark.spec("V4", "V6")

TIMESCALE = 90_000
rates = st.sampled_from([Fraction(120), Fraction(240), Fraction(144), Fraction(120_000, 1001), Fraction(90)])
lengths = st.sampled_from([Fraction(2), Fraction(4), Fraction(5, 2)])


@st.composite
def recordings(draw: st.DrawFn) -> tuple[Borders, list[Shown[int]]]:
    """Five seconds at a high rate, with clocks that tremble, and gaps."""
    rate = draw(rates)
    step = int(TIMESCALE / rate)
    seed = draw(st.randoms(use_true_random=False))
    steps = [max(1, step + seed.randint(-step // 3, step // 3)) for _ in range(int(5 * rate))]
    for _ in range(draw(st.integers(0, 3))):
        steps[seed.randrange(len(steps))] = seed.randint(1, 3 * TIMESCALE)
    times = [0, *accumulate(steps)]
    pictures = [Shown(time, step, number) for number, time in enumerate(times)]
    return Borders(TIMESCALE, draw(lengths), 1 / rate), pictures


@settings(max_examples=30)
@given(recordings(), st.data())
def test_a_later_attempt_shows_the_same_pictures(
    recording: tuple[Borders, list[Shown[int]]], data: st.DataObject
) -> None:
    borders, pictures = recording
    start = data.draw(st.integers(0, len(pictures) - 1))
    whole = list(borders.arrange(pictures))
    later = list(borders.arrange(pictures[start:]))
    first = borders.segment_of(pictures[start].ticks) + 1
    assert from_segment(later, first) == from_segment(whole, first)


@settings(max_examples=30)
@given(recordings())
def test_there_are_never_more_than_sixty_a_second_and_the_end_stays(
    recording: tuple[Borders, list[Shown[int]]],
) -> None:
    borders, pictures = recording
    beats = list(borders.arrange(pictures))
    shown = [beat.ticks for beat in beats if beat.picture is not None]
    slot = TIMESCALE * borders.frame_seconds * one_of(float(1 / borders.frame_seconds))
    for index, ticks in enumerate(shown):
        within = [other for other in shown[index : index + 100] if other < ticks + TIMESCALE]
        assert len(within) <= TIMESCALE / slot + 4  # one more at each border, and where the slots begin
    assert beats[-1].ticks == pictures[-1].ticks + pictures[-1].duration


@pytest.mark.parametrize(
    ("rate", "share"),
    [(0.0, 1), (24.0, 1), (59.94, 1), (60.0, 1), (60.02, 1), (72.0, 2), (120.0, 2), (240.0, 4)],
)
def test_usual_rates_are_left_alone(rate: float, share: int) -> None:
    assert one_of(rate) == share


def from_segment(beats: list[Beat[int]], first: int) -> list[Beat[int]]:
    return [beat for beat in beats if beat.segment >= first]
