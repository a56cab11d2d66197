"""Attempts that end too early, and the ones behind them: nothing is made twice, and nothing is missing."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from mediamill.media.hls import Segment
from mediamill.processors.transcode.encoders import Setup, open_encoder
from mediamill.processors.transcode.quality import Quality
from tests.processors.transcode.attempts import Crash, Home, state_of
from tests.processors.transcode.clips import FIRST_TICK, SOUND_RATE, TICK_SECONDS, Film, make_clip, number_of

pytestmark = pytest.mark.spec("V6")

# 480p and 360p, five segments of a second; keyframes of the source lie elsewhere.
FILM = Film(width=854, height=480, seconds=5.0, gop=33)
NUMBERS = list(range(125))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", FILM)


@pytest.fixture(scope="module")
def undisturbed(clip: Path) -> Home:
    home = Home(clip.parent / "kept")
    home.attempt(clip)
    return home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "kept")


def crash_after(*names: str) -> Callable[[str], bool]:
    return lambda name: name in names


def joined(home: Home, quality: str) -> io.BytesIO:
    names = [f"{quality}-init.mp4", *home.segments(quality)]
    return io.BytesIO(b"".join((home.folder / name).read_bytes() for name in names))


def seen(home: Home, quality: str) -> list[tuple[int, int]]:
    """The number in each picture, and its time in ticks."""
    with av.open(joined(home, quality), "r") as container:
        return [
            (number_of(np.asarray(frame.to_ndarray(format="gray"), np.uint8)), frame.pts or 0)
            for frame in container.decode(video=0)
        ]


def heard(home: Home) -> NDArray[np.float32]:
    with av.open(joined(home, "audio"), "r") as container:
        frames = list(container.decode(audio=0))
    assert [frame.pts for frame in frames] == [number * 1024 for number in range(len(frames))]
    return np.concatenate([frame.to_ndarray() for frame in frames], axis=1)


def ticks_of(sound: NDArray[np.float32]) -> list[float]:
    """When the ticks begin, in seconds."""
    loud = np.flatnonzero(np.abs(sound[0]) > 0.2)
    return [int(at) / SOUND_RATE for at in loud[np.flatnonzero(np.diff(loud, prepend=-SOUND_RATE) > 5000)]]


def check_whole(home: Home, undisturbed: Home) -> None:
    """Every picture once, at its time, in both qualities; the sound in step, as if nothing had happened."""
    for quality in ("480p", "360p"):
        numbers, times = zip(*seen(home, quality), strict=True)
        assert list(numbers) == NUMBERS
        assert len(set(np.diff(times))) == 1
        assert times[0] == 0
    assert ticks_of(heard(home)) == pytest.approx(np.arange(FIRST_TICK, 5, TICK_SECONDS), abs=0.005)
    assert set(undisturbed.facts) == set(home.facts)
    for name in ("480p-init.mp4", "360p-init.mp4", "audio-init.mp4", "480p.m3u8", "360p.m3u8", "audio.m3u8"):
        assert (home.folder / name).read_bytes() == (undisturbed.folder / name).read_bytes()
    assert float(np.abs(heard(home) - heard(undisturbed)).max()) < 0.1


@pytest.mark.parametrize(
    "last",
    [
        "poster.jpg",
        "audio-00001.m4s",
        "audio.m3u8",
        "480p-init.mp4",
        "480p-00002.m4s",
        "360p-00002.m4s",
        "480p.m3u8",
    ],
)
def test_after_a_crash_only_what_is_missing_is_made(
    home: Home, clip: Path, undisturbed: Home, last: str
) -> None:
    with pytest.raises(Crash):
        home.attempt(clip, crash_after=crash_after(last))
    before = home.bytes_of("")
    result = home.attempt(clip)
    assert not [name for name in home.kept if name in before]
    assert all((home.folder / name).read_bytes() == content for name, content in before.items())
    assert result["duration_seconds"] == 5.0
    check_whole(home, undisturbed)


def test_crash_after_crash_ends_all_the_same(home: Home, clip: Path, undisturbed: Home) -> None:
    for index in range(5):
        with pytest.raises(Crash):
            home.attempt(clip, crash_after=crash_after(f"480p-{index:05d}.m4s"))
    result = home.attempt(clip)
    assert state_of(result, "480p") == state_of(result, "360p") == "completed"
    check_whole(home, undisturbed)


def test_qualities_may_be_differently_far_and_have_holes(home: Home, clip: Path, undisturbed: Home) -> None:
    home.attempt(clip)
    home.forget("480p.m3u8", "360p.m3u8", "audio.m3u8", "master.m3u8")
    lost = ("480p-00003.m4s", "480p-00004.m4s", "360p-00001.m4s", "360p-00004.m4s", "audio-00002.m4s")
    home.forget(*lost)
    home.attempt(clip)
    assert {name for name in home.kept if name.endswith(".m4s")} == set(lost)
    check_whole(home, undisturbed)


def test_when_only_playlists_are_missing_nothing_is_encoded(home: Home, clip: Path) -> None:
    home.attempt(clip)
    home.forget("480p.m3u8", "360p.m3u8", "master.m3u8")
    home.attempt(clip)
    assert sorted(home.kept) == ["360p.m3u8", "480p.m3u8", "master.m3u8"]


def test_resuming_can_be_turned_off(home: Home, clip: Path, undisturbed: Home) -> None:
    with pytest.raises(Crash):
        home.attempt(clip, crash_after=crash_after("360p-00003.m4s"))
    home.attempt(clip, resume=False)
    assert {*home.segments("480p"), *home.segments("360p"), *home.segments("audio")} < set(home.kept)
    check_whole(home, undisturbed)


def test_segments_of_another_encoder_are_made_again(home: Home, clip: Path, undisturbed: Home) -> None:
    def other(setup: Setup) -> av.VideoCodecContext:
        return open_encoder(replace(setup, preset="veryfast"))

    with pytest.raises(Crash):
        home.attempt(clip, opening=other, crash_after=crash_after("360p-00002.m4s"))
    home.attempt(clip)
    assert home.segments("480p") == sorted(name for name in home.kept if name.startswith("480p-0"))
    check_whole(home, undisturbed)


def test_qualities_that_are_there_already_go_into_the_master_as_they_are(
    home: Home, clip: Path, undisturbed: Home
) -> None:
    home.attempt(clip)
    home.forget("master.m3u8", *home.segments("360p"), "360p-init.mp4", "360p.m3u8")
    before = home.bytes_of("480p")
    result = home.attempt(clip, qualities=["360p"], skip=["480p"], resume=False)
    assert home.bytes_of("480p") == before
    assert not [name for name in home.kept if name.startswith("480p")]
    assert state_of(result, "480p") == state_of(result, "360p") == "completed"
    master = (home.folder / "master.m3u8").read_text()
    assert "480p.m3u8" in master
    assert "360p.m3u8" in master
    check_whole(home, undisturbed)


@pytest.mark.parametrize("name", ["clip.mkv", "clip.ts", "clip.avi"])
def test_other_containers_are_resumed_as_exactly(home: Home, tmp_path: Path, name: str) -> None:
    source = make_clip(tmp_path / name, FILM)
    with pytest.raises(Crash):
        home.attempt(source, crash_after=crash_after("360p-00002.m4s"))
    home.attempt(source)
    for quality in ("480p", "360p"):
        assert [number for number, _ in seen(home, quality)] == NUMBERS
    ticks = ticks_of(heard(home))
    assert np.diff(ticks) == pytest.approx(TICK_SECONDS, abs=0.005)


def test_pictures_at_odd_times_are_resumed_as_exactly(home: Home, tmp_path: Path) -> None:
    ticks = (0, 40, 95, 300, 310, 990, 1010, 1800, 4400, 4410, 4500, 4800)
    source = make_clip(tmp_path / "odd.mp4", Film(ticks=ticks, seconds=5, gop=4, rate=Fraction(10)))
    whole = Home(tmp_path / "whole")
    whole.attempt(source)
    with pytest.raises(Crash):
        home.attempt(source, crash_after=crash_after("360p-00002.m4s"))
    home.attempt(source)
    assert seen(home, "360p") == seen(whole, "360p")
    # Between 1.8 s and 4.4 s one picture stands: it is shown again where segments begin.
    shown = [(number, ticks * 1000 // 16_000) for number, ticks in seen(home, "360p")]
    assert shown[:12] == [*enumerate(ticks[:8]), (7, 2000), (7, 3000), (7, 4000), (8, 4400)]
    assert shown[-1] == (11, 4800)


def test_the_first_missing_segment_is_told_while_another_thread_adds_one() -> None:
    class GrowsMeanwhile(dict[int, Segment]):
        def __len__(self) -> int:
            return super().__len__() - 1

    segment = Segment("720p-00000.m4s", 4.0, 1)
    assert Quality("720p", segments=GrowsMeanwhile({0: segment, 1: segment})).first_missing == 2
