"""Fragmented MP4 from encoded samples, from the times of its samples."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.processors.transcode.fmp4 import (
    Sample,
    decode_times,
    lengths_for_start_codes,
    units_of,
    write_fragment,
)

pytestmark = pytest.mark.spec("V4")


def test_start_codes_of_both_lengths_become_lengths() -> None:
    data = b"\0\0\0\1\x67abc\0\0\1\x68d\0\0\0\1\x65\0\0\3\1e"
    assert units_of(data) == [b"\x67abc", b"\x68d", b"\x65\0\0\3\1e"]
    assert lengths_for_start_codes(data) == (b"\0\0\0\4\x67abc" + b"\0\0\0\2\x68d" + b"\0\0\0\6\x65\0\0\3\1e")


def test_decoding_goes_by_the_order_of_bytes_and_never_comes_too_late() -> None:
    assert decode_times([0, 3, 1, 2], delay=2) == [0, 1, 2, 3]
    assert decode_times([0, 30, 10, 20], delay=10) == [0, 10, 20, 30]
    # Pictures that stand for long are decoded early enough for those that are shown before them.
    assert decode_times([0, 900, 10, 20], delay=20) == [0, 10, 20, 40]


@given(
    st.permutations(range(8)), st.lists(st.integers(20, 5000), min_size=9, max_size=9), st.integers(0, 999)
)
def test_any_order_and_any_times_can_be_decoded(order: list[int], steps: list[int], delay: int) -> None:
    shown = [sum(steps[: place + 1]) for place in [-1, *order]]
    times = decode_times(shown, delay)
    assert all(earlier < later for earlier, later in pairwise(times))
    assert all(time <= one + delay for time, one in zip(times, shown, strict=True))


@pytest.mark.parametrize(
    "samples",
    [[], [Sample(5, b"x"), Sample(5, b"y")], [Sample(9, b"x"), Sample(5, b"y")], [Sample(20, b"x")]],
)
def test_samples_that_make_no_segment_are_refused(samples: list[Sample]) -> None:
    with pytest.raises(ValueError, match="samples of a segment"):
        write_fragment(1, samples, 20, pictures=True)
