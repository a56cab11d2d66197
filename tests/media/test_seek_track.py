"""The seek track: what is written is read back, anything else is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.media.seek_track import BadSeekTrackError, Preview, read_seek_track, write_seek_track

pytestmark = pytest.mark.spec("V8", "V12")

pixels = st.integers(0, 1600)
previews = st.builds(
    lambda start, length, sheet, x, y: Preview(
        start, start + length, f"sprite-{sheet:03d}.jpg", x, y, 160, 90
    ),
    st.integers(0, 36_000_000),
    st.integers(1, 100_000),
    st.integers(0, 9),
    pixels,
    pixels,
)


def test_the_track_is_webvtt_with_parts_of_sprites() -> None:
    first = Preview(0, 2500, "sprite-000.jpg", 0, 0, 160, 90)
    last = Preview(3_602_500, 3_605_000, "sprite-001.jpg", 1440, 810, 160, 90)
    assert write_seek_track([first, last]) == (
        "WEBVTT\n\n"
        "00:00:00.000 --> 00:00:02.500\nsprite-000.jpg#xywh=0,0,160,90\n\n"
        "01:00:02.500 --> 01:00:05.000\nsprite-001.jpg#xywh=1440,810,160,90\n"
    )


@given(st.lists(previews, max_size=20))
def test_a_seek_track_is_read_back(track: list[Preview]) -> None:
    assert read_seek_track(write_seek_track(track)) == track


@pytest.mark.parametrize(
    "text",
    [
        "",
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n../sprite-000.jpg#xywh=0,0,1,1\n",
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nhttp://evil/sprite-000.jpg#xywh=0,0,1,1\n",
        "WEBVTT\n\n00:00:01.000 --> 00:00:01.000\nsprite-000.jpg#xywh=0,0,1,1\n",
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nsprite-000.jpg#xywh=0,0,1,1\n<script>\n",
        "WEBVTT\n\nNOTE hello\n",
        "WEBVTT" + "\n\n00:00:00.000 --> 00:00:01.000\nsprite-000.jpg#xywh=0,0,1,1" * 10_001,
        "WEBVTT" + "x" * 5_000_000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadSeekTrackError):
        read_seek_track(text)


@given(st.text(max_size=100), st.integers(0, 100))
def test_any_text_is_read_or_refused(text: str, at: int) -> None:
    good = write_seek_track([Preview(0, 2500, "sprite-000.jpg", 0, 0, 160, 90)])
    with suppress(BadSeekTrackError):
        read_seek_track(good[:at] + text + good[at:])
