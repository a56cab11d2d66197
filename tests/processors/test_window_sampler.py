from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame

from mediamill.media.frames import Footage
from mediamill.processors.video.window_sampler import (
    Sample,
    most_typical,
    sample_windows,
    spread,
    thin_out,
    windows,
)
from tests.media.clips import FPS, encode, pan, still

pytestmark = pytest.mark.spec("L9")


def sample(path: Path, limit: int, seconds: float) -> list[Sample]:
    with Footage(path) as footage:
        return sample_windows(footage, seconds, limit)


def video(path: Path, seconds: int, gop_seconds: float, **options: str) -> Path:
    gop = round(gop_seconds * FPS)
    return encode(path, pan(1, seconds), gop=gop, options={"sc_threshold": "0", "bf": "0"} | options)


def test_a_window_with_one_keyframe_gives_that_one(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4", 8, gop_seconds=2)
    assert sample(path, 4, 8.0) == [Sample(at, True) for at in (0, 2000, 4000, 6000)]


def test_a_window_without_a_keyframe_gives_its_centre(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4", 8, gop_seconds=100)
    first, *others = sample(path, 4, 8.0)
    assert first == Sample(0, True)
    assert [found.timestamp_ms for found in others] == pytest.approx([3000, 5000, 7000], abs=100)
    assert not any(found.is_keyframe for found in others)


def test_of_several_keyframes_the_most_typical_is_taken(tmp_path: Path) -> None:
    images = chain(still(1, 1), still(2, 3), still(1, 1), still(2, 1))
    path = encode(tmp_path / "a.mp4", images, gop=FPS, options={"sc_threshold": "0", "bf": "0"})
    (found,) = sample(path, 1, 6.0)
    assert found.is_keyframe
    assert found.timestamp_ms in (1000, 2000, 3000, 5000)  # the four of six that are alike


def test_the_most_typical_is_nearest_to_the_mean() -> None:
    levels = [np.full((32, 32, 3), level, np.uint8) for level in (0, 90, 100, 255)]
    assert most_typical(levels) == 2  # the mean is 111


def test_a_video_without_an_index_is_sampled_by_seeking(tmp_path: Path) -> None:
    path = video(tmp_path / "a.ts", 8, gop_seconds=1)
    found = sample(path, 4, 8.0)
    assert [one.timestamp_ms for one in found] == pytest.approx([1000, 3000, 5000, 7000], abs=150)


def test_b_frames_do_not_matter(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4", 8, gop_seconds=2, preset="medium", bf="2")
    assert [one.is_keyframe for one in sample(path, 4, 8.0)] == [True] * 4


class CountingFootage(Footage):
    """Counts the keyframes that it was asked for."""

    asked = 0

    def keyframe_at(self, seconds: float) -> tuple[float, VideoFrame] | None:
        self.asked += 1
        return super().keyframe_at(seconds)


def test_only_a_part_of_the_file_is_decoded(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4", 40, gop_seconds=2)
    with CountingFootage(path) as footage:
        assert len(sample_windows(footage, 40.0, 5)) == 5
        assert footage.asked == 20  # the keyframes, of 480 frames


def test_all_keyframes_of_a_window_are_looked_at(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4", 20, gop_seconds=0.5)
    with CountingFootage(path) as footage:
        assert len(sample_windows(footage, 20.0, 1)) == 1
        assert footage.asked == 40


def test_a_video_of_keyframes_only_is_looked_at_twice_a_second() -> None:
    assert thin_out([number / 50 for number in range(1000)]) == [number / 2 for number in range(40)]
    assert thin_out([0.0, 0.4999, 5.0, 5.2, 6.0]) == [0.0, 0.4999, 5.0, 6.0]


def test_the_mean_is_taken_in_colour(tmp_path: Path) -> None:
    """Red once, then greens a little darker and brighter than it: in grey, red would be in the middle."""
    colours = [(224, 0, 0), (0, 90, 0), (0, 138, 0), (0, 90, 0), (0, 138, 0)]
    images = [np.full((108, 192, 3), colour, np.uint8) for colour in colours for _ in range(FPS)]
    path = encode(tmp_path / "a.mp4", images, gop=FPS, options={"sc_threshold": "0", "bf": "0"})
    (found,) = sample(path, 1, 5.0)
    assert found.timestamp_ms >= 1000


def test_a_few_of_many_are_evenly_apart() -> None:
    assert spread([1, 2, 3], 5) == [1, 2, 3]
    assert spread(range(9), 3) == [1, 4, 7]


def test_a_lying_duration_gives_what_is_there(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4", 4, gop_seconds=1)
    found = sample(path, 10, 36_000.0)
    assert 1 <= len(found) <= 2
    assert all(one.timestamp_ms <= 4000 for one in found)


def test_more_windows_than_frames_give_each_frame_once(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", still(1, 0.25))
    found = sample(path, 20, 0.25)
    stamps = [one.timestamp_ms for one in found]
    assert stamps == sorted(set(stamps))
    assert len(stamps) <= 3


def test_windows_are_equal_and_cover_all() -> None:
    assert windows(8.0, 4) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert windows(0.0, 0) == [(0, 0)]
