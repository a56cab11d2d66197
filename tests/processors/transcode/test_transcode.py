"""What an attempt tells, and what becomes of it when a quality fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import pytest

from mediamill.errors import GiveUpError
from mediamill.media.hls import read_playlist
from mediamill.processors.transcode.attempt import QualityFailedError
from mediamill.processors.transcode.encoders import Setup, choose_encoder, open_encoder, usable_encoders
from mediamill.processors.transcode.line_up import NoQualityError
from tests.processors.transcode.attempts import Home, state_of
from tests.processors.transcode.clips import Film, make_clip

STEPS = ["probe", "thumbnail", "transcode", "master_playlist", "finalize"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", Film(width=854, height=480, seconds=3.0))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "kept")


class Failing:
    """An encoder that gives up one quality, when it is opened for the nth time."""

    def __init__(self, *heights: int, at: int = 1) -> None:
        self._heights, self._left = heights, at

    def __call__(self, setup: Setup) -> av.VideoCodecContext:
        if setup.height in self._heights:
            self._left -= 1
            if self._left <= 0:
                raise av.ExternalError(1, "the encoder is out of order")
        return open_encoder(setup)


@pytest.mark.spec("V3")
def test_every_step_is_told_in_order_and_the_percentage_only_grows(home: Home, clip: Path) -> None:
    home.attempt(clip)
    steps = [step for step, _, _ in home.reports]
    assert list(dict.fromkeys(steps)) == STEPS
    assert steps == sorted(steps, key=lambda step: STEPS.index(str(step)))
    percents = [percent for _, percent, _ in home.reports]
    assert percents == sorted(percents)
    assert percents[-1] == 100


@pytest.mark.spec("V5")
def test_each_quality_is_told_with_its_segments(home: Home, clip: Path) -> None:
    home.attempt(clip)
    told = [parts["480p"] for _, _, parts in home.reports if parts]
    assert {part["segments_total"] for part in told} == {3}
    assert sorted({part["segments_done"] for part in told}) == [0, 1, 2, 3]
    assert told[0]["state"] == "pending"
    assert "in_progress" in [part["state"] for part in told]
    assert told[-1] == {
        "state": "completed",
        "segments_total": 3,
        "segments_done": 3,
        "percent": 100.0,
        "error": None,
    }
    parts = home.reports[-1][2]
    assert parts is not None
    assert parts["1080p"]["state"] == "skipped"
    assert "which is less" in parts["1080p"]["error"]


@pytest.mark.spec("V4")
def test_keyframes_are_aligned_over_qualities_and_the_master_comes_last(home: Home, clip: Path) -> None:
    home.attempt(clip)
    assert home.kept[-1] == "master.m3u8"
    lengths = [
        [one.seconds for one in read_playlist((home.folder / f"{name}.m3u8").read_text()).segments]
        for name in ("480p", "360p")
    ]
    assert lengths[0] == lengths[1] == [1.0, 1.0, 1.0]
    sound = read_playlist((home.folder / "audio.m3u8").read_text())
    assert [one.seconds for one in sound.segments] == pytest.approx([1.0] * 3, abs=0.022)


@pytest.mark.spec("V4")
def test_pictures_decoded_out_of_order_are_shown_at_their_times_in_every_quality(
    home: Home, clip: Path
) -> None:
    home.attempt(clip, preset="veryfast")
    shown = {}
    for name in ("480p", "360p"):
        with av.open(str(home.folder / f"{name}.m3u8"), "r") as container:
            packets = [packet for packet in container.demux(video=0) if packet.pts is not None]
        times = [float(packet.pts * packet.time_base) for packet in packets if packet.pts is not None]
        assert times != sorted(times)  # there are pictures that refer to later ones
        keyframes = [time for time, packet in zip(times, packets, strict=True) if packet.is_keyframe]
        assert keyframes == pytest.approx([0.0, 1.0, 2.0], abs=0.0001)
        shown[name] = sorted(times)
    assert shown["480p"] == shown["360p"] == pytest.approx([number / 25 for number in range(75)], abs=0.0001)


@pytest.mark.spec("V5")
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_quality_that_fails_does_not_stop_the_others(home: Home, clip: Path, at: int) -> None:
    result = home.attempt(clip, opening=Failing(480, at=at))
    assert (state_of(result, "480p"), state_of(result, "360p")) == ("failed", "completed")
    failed = next(one for one in result["qualities"] if one["name"] == "480p")
    assert "out of order" in failed["error"]
    assert "480p.m3u8" not in (home.folder / "master.m3u8").read_text()
    assert "480p.m3u8" not in home.facts


@pytest.mark.spec("V5")
@pytest.mark.parametrize(
    ("heights", "critical"), [((360,), "lowest"), ((480,), "480p"), ((480, 360), "720p")]
)
def test_a_critical_quality_that_fails_is_the_end_of_the_attempt(
    home: Home, clip: Path, heights: tuple[int, ...], critical: str
) -> None:
    with pytest.raises(QualityFailedError, match="out of order"):
        home.attempt(clip, opening=Failing(*heights), critical=critical)
    assert "master.m3u8" not in home.facts


@pytest.mark.spec("V5")
def test_what_a_failed_quality_had_is_used_by_the_next_attempt(home: Home, clip: Path) -> None:
    with pytest.raises(QualityFailedError):
        home.attempt(clip, opening=Failing(360, at=4))
    assert home.segments("360p") == ["360p-00000.m4s", "360p-00001.m4s"]
    home.attempt(clip)
    assert [name for name in home.kept if name.endswith(".m4s")] == ["360p-00002.m4s"]


@pytest.mark.spec("V4")
def test_only_qualities_that_were_asked_for_are_made(home: Home, clip: Path) -> None:
    result = home.attempt(clip, qualities=["360p", "1080p"])
    states = {one["name"]: (one["state"], one["error"]) for one in result["qualities"]}
    assert states["360p"] == ("completed", None)
    assert states["480p"] == ("skipped", "not asked for")
    assert states["1080p"][0] == "skipped"


@pytest.mark.spec("V4")
@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"qualities": ["1080p"]}, NoQualityError),
        ({"preset": "placebo; rm"}, GiveUpError),
        ({"encoder": "mpeg4"}, GiveUpError),
        ({"segment_seconds": 0}, GiveUpError),
        ({"critical": "highest"}, GiveUpError),
        ({"qualities": "720p"}, GiveUpError),
    ],
)
def test_what_cannot_be_done_is_refused_for_good(
    home: Home, clip: Path, payload: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        home.attempt(clip, **payload)
    assert home.segments("360p") == []


def test_the_software_encoder_is_always_there_and_an_earlier_choice_is_kept() -> None:
    usable = usable_encoders()
    assert usable[-1] == "libx264"
    assert choose_encoder("auto") == usable[0]
    assert choose_encoder("auto", before="libx264") == "libx264"
    assert choose_encoder("h264_vaapi") in usable
