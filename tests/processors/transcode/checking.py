"""What must be true of any output: whole, in time, keyframes aligned, sound where it was."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tests.processors.transcode.odd_clips import FLASH_AT
from tests.processors.transcode.watching import Output, Track, beep_at, ffprobe, flash_at

SIZES = {"480p": (856, 480), "360p": (642, 360)}
TURNED_SIZES = {"480p": (480, 856), "360p": (360, 642)}
UPRIGHT = ["red", "lime", "blue", "yellow"]
FRAME = 0.04
AAC_FRAME = 1024 / 48_000


def check(
    output: Output,
    sizes: dict[str, tuple[int, int]],
    seconds: float,
    frame: float = FRAME,
    sound_seconds: float | None = None,
    corners: Sequence[str] = UPRIGHT,
) -> None:
    """Everything that must be true of any output."""
    assert output.faults() == []
    assert {
        name: (track.frames[0].width, track.frames[0].height) for name, track in output.qualities.items()
    } == sizes
    assert {one.playlist[:-5]: (one.width, one.height) for one in output.master.variants} == sizes
    for track in output.qualities.values():
        check_pictures(track, seconds, frame)
        assert track.frames[0].corners() == list(corners)
    check_master(output)
    starts = [track.segment_starts for track in output.qualities.values()]
    assert all(one == starts[0] for one in starts), "keyframes are not where those of other qualities are"
    times = [[round(one.time, 6) for one in track.frames] for track in output.qualities.values()]
    assert all(one == times[0] for one in times), "qualities show pictures at different times"
    if sound_seconds is None:
        assert output.master.audio is None
        assert output.result["has_audio"] is False
    else:
        assert output.result["has_audio"] is True
        check_sound(output.quality("audio"), sound_seconds)


def check_master(output: Output) -> None:
    """Another player finds every stream in it, with the codecs and within the rates that it tells."""
    streams = ffprobe(output.folder / "master.m3u8", "-show_streams")["streams"]
    kinds = [stream["codec_type"] for stream in streams]
    assert kinds.count("video") == len(output.qualities)
    assert kinds.count("audio") == (1 if output.master.audio else 0)
    for variant in output.master.variants:
        track = output.quality(variant.playlist.removesuffix(".m3u8"))
        codec = variant.codecs.split(",")[0]
        assert int(codec[-2:], 16) == track.probe["streams"][0]["level"]
        sizes = [(track.folder / segment.name).stat().st_size for segment in track.playlist.segments]
        rates = [size * 8 / one.seconds for size, one in zip(sizes, track.playlist.segments, strict=True)]
        full = [rate for rate, one in zip(rates, track.playlist.segments, strict=True) if one.seconds >= 1]
        assert variant.bandwidth >= max(full, default=0)


def check_pictures(track: Track, seconds: float, frame: float) -> None:
    frames, playlist = track.frames, track.playlist
    assert frames[0].time == 0
    assert all(later.time > earlier.time for earlier, later in itertools.pairwise(frames))
    assert {one.format for one in frames} == {"yuv420p"}
    assert track.seconds == pytest.approx(seconds, abs=frame * 1.01)
    assert frames[-1].time + frames[-1].seconds == pytest.approx(track.seconds, abs=0.002)
    begins = np.cumsum([0.0, *(segment.seconds for segment in playlist.segments)])
    assert track.segment_starts == pytest.approx(begins[:-1], abs=0.002)
    assert all(segment.seconds <= 2.5 for segment in playlist.segments)
    told = track.probe
    assert len(told["packets"]) == len(frames)
    keys = [float(packet["pts_time"]) for packet in told["packets"] if "K" in packet["flags"]]
    assert keys == pytest.approx(begins[:-1], abs=0.002)
    assert told["streams"][0].get("sample_aspect_ratio", "1:1") in ("1:1", "N/A", "0:1")
    assert track.play() == ""


def check_sound(track: Track, seconds: float) -> None:
    start, rate, samples = track.samples
    assert start == pytest.approx(0, abs=0.001)
    assert samples.shape[0] == 2
    assert samples.shape[1] / rate == pytest.approx(seconds, abs=2 * AAC_FRAME)
    assert track.seconds == pytest.approx(samples.shape[1] / rate, abs=0.002)
    assert track.play() == ""


def check_sync(output: Output, flash: float = FLASH_AT, beep: float = FLASH_AT, frame: float = FRAME) -> None:
    """The flash and the beep are where they were, and as far apart as they were."""
    heard = beep_at(output.quality("audio"))
    for track in output.qualities.values():
        seen = flash_at(track)
        assert seen == pytest.approx(flash, abs=frame * 1.01)
        assert heard - seen == pytest.approx(beep - flash, abs=0.012)
