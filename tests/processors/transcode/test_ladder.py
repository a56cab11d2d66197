"""The ladder of qualities: names by the short side, nothing above the source, sizes that encoders take."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.processors.transcode.ladder import (
    LONGEST_SIDE,
    QUALITIES,
    SIDES,
    Rung,
    rungs_for,
    wanted_but_above,
)

pytestmark = pytest.mark.spec("V4")

sides = st.integers(1, 9000)
rates = st.sampled_from([0.0, 12.5, 23.976, 25.0, 29.97, 50.0, 59.94, 120.0, float("nan")])
choices = st.none() | st.lists(st.sampled_from([*QUALITIES, "240p"]), max_size=8)


def sizes(*given: int, wanted: list[str] | None = None) -> dict[str, tuple[int, int]]:
    return {rung.name: (rung.width, rung.height) for rung in rungs_for(given[0], given[1], 25.0, wanted)}


def test_a_4k_video_gets_every_quality_highest_first() -> None:
    assert sizes(3840, 2160) == {
        "2160p": (3840, 2160),
        "1440p": (2560, 1440),
        "1080p": (1920, 1080),
        "720p": (1280, 720),
        "480p": (854, 480),
        "360p": (640, 360),
    }
    assert wanted_but_above(3840, 2160) == {}


def test_a_portrait_is_named_by_its_short_side() -> None:
    assert sizes(1080, 1920) == {
        "1080p": (1080, 1920),
        "720p": (720, 1280),
        "480p": (480, 854),
        "360p": (360, 640),
    }


@pytest.mark.parametrize(
    ("source", "highest"),
    [
        ((1280, 720), ("720p", (1280, 720))),
        ((1279, 719), ("720p", (1278, 718))),
        ((1920, 1072), ("1080p", (1920, 1072))),
        ((1920, 800), ("720p", (1728, 720))),
        ((1919, 1081), ("1080p", (1918, 1080))),
        ((500, 500), ("480p", (480, 480))),
        ((640, 360), ("360p", (640, 360))),
        ((160, 121), ("360p", (160, 120))),
        ((5, 3), ("360p", (4, 2))),
        ((1, 1), ("360p", (2, 2))),
        ((5120, 1440), ("1080p", (3840, 1080))),
        ((20000, 300), ("360p", (4096, 62))),
    ],
)
def test_the_highest_rung_is_as_large_as_it_can_be(
    source: tuple[int, int], highest: tuple[str, tuple[int, int]]
) -> None:
    assert next(iter(sizes(*source).items())) == highest


def test_only_what_is_wanted_is_made_and_the_rest_has_a_reason() -> None:
    assert list(sizes(1280, 720, wanted=["360p", "1080p", "720p"])) == ["720p", "360p"]
    reasons = wanted_but_above(1280, 720, ["360p", "1080p", "720p", "8k"])
    assert reasons == {
        "1080p": "the source has 1280 × 720 pixels, which is less",
        "8k": "there is no such quality; there are 2160p, 1440p, 1080p, 720p, 480p, 360p",
    }
    assert wanted_but_above(5120, 1440, ["1440p"]) == {
        "1440p": "it would have a side of more than 4096 pixels"
    }


def test_many_frames_a_second_may_take_more_bits() -> None:
    slow, fast = rungs_for(1920, 1080, 29.97), rungs_for(1920, 1080, 59.94)
    assert all(1.4 < other.max_rate / one.max_rate < 1.6 for one, other in zip(slow, fast, strict=True))
    assert rungs_for(1920, 1080, 48.0) == slow


@given(sides, sides, rates, choices)
def test_every_quality_is_either_made_or_skipped_with_a_reason(
    width: int, height: int, rate: float, wanted: list[str] | None
) -> None:
    made = [rung.name for rung in rungs_for(width, height, rate, wanted)]
    skipped = wanted_but_above(width, height, wanted)
    assert sorted([*made, *skipped]) == sorted(set(QUALITIES if wanted is None else wanted))
    assert all(skipped.values())


@given(sides, sides, rates)
def test_rungs_are_even_within_the_source_and_fall(width: int, height: int, rate: float) -> None:
    rungs = rungs_for(width, height, rate)
    assert rungs[-1].name == "360p"
    for rung in rungs:
        assert rung.width % 2 == rung.height % 2 == 0
        assert 2 <= rung.width <= max(2, width)
        assert 2 <= rung.height <= max(2, height)
        assert min(rung.width, rung.height) <= SIDES[rung.name]
        assert max(rung.width, rung.height) <= LONGEST_SIDE
        assert 15 <= rung.crf <= 30
    assert [rung.name for rung in rungs] == sorted((rung.name for rung in rungs), key=QUALITIES.index)
    for higher, lower in itertools.pairwise(rungs):
        assert higher.max_rate >= lower.max_rate * 0.9
        assert higher.width * higher.height > lower.width * lower.height


@given(st.integers(360, 9000), st.integers(360, 4000), rates)
def test_the_shape_of_the_picture_stays(width: int, height: int, rate: float) -> None:
    for rung in rungs_for(width, height, rate):
        assert abs(distortion(rung, width, height)) <= 4 / min(rung.width, rung.height)


@given(sides, sides, rates)
def test_a_turned_source_has_turned_rungs(width: int, height: int, rate: float) -> None:
    turned = [(rung.name, rung.height, rung.width, rung.max_rate) for rung in rungs_for(height, width, rate)]
    assert turned == [
        (rung.name, rung.width, rung.height, rung.max_rate) for rung in rungs_for(width, height, rate)
    ]


def distortion(rung: Rung, width: int, height: int) -> float:
    return (rung.width / rung.height) / (width / height) - 1
