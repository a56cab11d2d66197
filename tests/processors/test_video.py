"""Whole videos through the processor: real decoding, real speech; the eyes are small models of the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from mediamill.processors.contract import ProcessorInput, ProcessorOutput, RefusedMediaError
from mediamill.processors.video import VideoDescriptionProcessor
from mediamill.processors.video.watch import is_too_slow
from tests.media.clips import FPS, HEIGHT, WIDTH, Image, encode, pan
from tests.media.making import make_film
from tests.media.speech import AMIABLE, read, silence, write
from tests.processors.seeing import ColourVision, GivenText

pytestmark = pytest.mark.spec("C26")

RED, BLUE = (220, 20, 20), (20, 20, 220)


class Crash(BaseException):
    """The worker is gone."""


@dataclass
class Attempt:
    """One attempt at a file, and what it reported."""

    folder: Path
    checkpoint: Any = None
    timeout_seconds: float = 600
    crash_at: str | None = None  # the step whose first checkpoint is the last thing that happens
    vision: ColourVision = field(default_factory=ColourVision)
    reader: GivenText = field(default_factory=lambda: GivenText("HELLO"))
    steps: list[tuple[str | None, float]] = field(default_factory=list)

    def run(self, path: Path, **payload: Any) -> ProcessorOutput:
        given = ProcessorInput(payload, None, path, self.folder, self.checkpoint, 1, self.report)
        processor = VideoDescriptionProcessor(
            ["video/*"], self.timeout_seconds, vision=self.vision, reader=self.reader
        )
        return processor.process(given)

    def report(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.steps.append((step, percent or 0.0))
        if checkpoint is not None:
            self.checkpoint = json.loads(json.dumps(checkpoint))
            if step == self.crash_at:
                raise Crash


def coloured(colour: tuple[int, int, int], seconds: float, seed: int) -> list[Image]:
    """A colour with a pattern of its own, so that a cut is a cut also in grey."""
    coarse = np.random.default_rng(seed).integers(40, 256, (6, 8))
    pattern = np.kron(coarse, np.ones((HEIGHT // 6, WIDTH // 8)))[:, :, None] / 255
    return [(np.array(colour) * pattern).astype(np.uint8)] * round(seconds * FPS)


def two_scenes(path: Path) -> Path:
    return encode(path, [*coloured(RED, 4, 1), *coloured(BLUE, 4, 2)])


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenes, and somebody speaks."""
    folder = tmp_path_factory.mktemp("talking")
    sound = write(folder / "sound.mp4", [silence(1), read(AMIABLE), silence(1)], "aac")
    return join(two_scenes(folder / "picture.mp4"), sound, folder / "talking.mp4")


def join(picture: Path, sound: Path, path: Path) -> Path:
    """One file of two, nothing encoded again."""
    with av.open(str(picture)) as seen, av.open(str(sound)) as heard, av.open(str(path), "w") as target:
        sources = [(seen, seen.streams.video[0]), (heard, heard.streams.audio[0])]
        streams = [target.add_stream_from_template(stream) for _, stream in sources]
        for (source, stream), out in zip(sources, streams, strict=True):
            for packet in source.demux(stream):
                if packet.dts is not None:
                    packet.stream = out
                    target.mux(packet)
    return path


def test_a_video_is_told_by_its_scenes_and_its_speech(tmp_path: Path, talking: Path) -> None:
    attempt = Attempt(tmp_path)
    output = attempt.run(talking, previews=True)
    content, facts = output.result["content"], output.result["facts"]
    head, first, second, speech = content.splitlines()
    assert head == f"Video, 0:08, {WIDTH}×{HEIGHT}, 2 scenes."
    assert first.startswith("[0:00–0:04] ")
    assert "red" in first
    assert "text: HELLO" in first
    assert second.startswith("[0:04–0:08] ")
    assert "blue" in second
    assert speech.startswith("Speech (English): ")
    assert "amiable himself" in speech
    assert [scene["keep_reason"] for scene in facts["scenes"]] == ["phash", "forced"]
    assert (facts["codec"], facts["fps"], facts["language"], facts["sampling"]) == (
        "h264",
        FPS,
        "en",
        "scenes",
    )
    assert facts["segments"][0]["start"] == pytest.approx(1.0, abs=0.7)
    assert {"colour-vision@1", "given-text@1"} < set(output.result["models"])
    assert set(output.files) == {"poster.jpg", "scene-01.jpg", "scene-02.jpg", "captions.vtt"}
    jpegs = [name for name in output.files.values() if name.endswith(".jpg")]
    assert all((tmp_path / name).read_bytes().startswith(b"\xff\xd8") for name in jpegs)
    assert (tmp_path / "captions.vtt").read_text().startswith("WEBVTT")
    percents = [percent for _, percent in attempt.steps]
    assert percents == sorted(percents)


def test_without_previews_nothing_is_written(tmp_path: Path) -> None:
    output = Attempt(tmp_path).run(two_scenes(tmp_path / "a.mp4"))
    assert output.files == {}
    assert "Without sound." in output.result["content"]


@pytest.mark.parametrize("crash_at", ["finding scenes", "looking at frames", "listening"])
def test_a_second_attempt_does_not_redo_what_was_done(tmp_path: Path, talking: Path, crash_at: str) -> None:
    whole = Attempt(tmp_path).run(talking)
    first = Attempt(tmp_path, crash_at=crash_at)
    with pytest.raises(Crash):
        first.run(talking)
    second = Attempt(tmp_path, checkpoint=first.checkpoint)
    assert second.run(talking).result == whole.result
    assert not any(step == "finding scenes" for step, _ in second.steps)
    assert len(first.vision.shapes) + len(second.vision.shapes) == 2


@pytest.mark.parametrize(
    "nonsense", [7, {}, {"watched": 3, "looks": 4, "speech": 5, "rules": 6}, {"rules": None}]
)
def test_a_checkpoint_that_makes_no_sense_is_not_used(tmp_path: Path, nonsense: Any) -> None:
    path = two_scenes(tmp_path / "a.mp4")
    assert Attempt(tmp_path, checkpoint=nonsense).run(path).result == Attempt(tmp_path).run(path).result


@pytest.mark.spec("L9")
def test_without_time_for_a_scan_frames_are_sampled(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, timeout_seconds=0)
    output = attempt.run(two_scenes(tmp_path / "a.mp4"))
    assert output.result["facts"]["sampling"] == "windows"
    assert output.result["facts"]["frames"][0] == {"timestamp_ms": 0, "is_keyframe": True}
    assert "sampled frames" in output.result["content"] or "sampled frame" in output.result["content"]


def test_the_scan_goes_on_only_if_it_ends_in_time() -> None:
    assert not is_too_slow(elapsed=4, seen_seconds=60, duration=600, budget=150)
    assert is_too_slow(elapsed=4, seen_seconds=6, duration=600, budget=150)
    assert not is_too_slow(elapsed=1, seen_seconds=1, duration=6000, budget=150)  # too early to tell
    assert not is_too_slow(elapsed=100, seen_seconds=1, duration=None, budget=150)


def test_a_long_talk_is_told_as_far_as_there_was_time(tmp_path: Path, talking: Path) -> None:
    output = Attempt(tmp_path, timeout_seconds=0).run(talking)
    assert "amiable" in output.result["content"]
    assert ", up to 0:0" in output.result["content"]
    assert output.result["facts"]["heard_until_seconds"] > 1


def blind(source: Path, path: Path) -> Path:
    """The same file, every byte of its pictures overwritten."""
    with av.open(str(source)) as container:
        spots = [(entry.pos, entry.size) for entry in container.streams.video[0].index_entries]
    data = bytearray(source.read_bytes())
    for at, size in spots:
        data[at : at + size] = b"\xff" * size
    path.write_bytes(data)
    return path


def test_broken_pictures_leave_the_speech(tmp_path: Path, talking: Path) -> None:
    output = Attempt(tmp_path).run(blind(talking, tmp_path / "broken.mp4"))
    assert "(Its pictures cannot be shown: " in output.result["content"]
    assert "amiable" in output.result["content"]
    assert output.result["facts"]["picture_trouble"]


def test_broken_pictures_without_sound_are_an_error_with_a_reason(tmp_path: Path) -> None:
    path = blind(two_scenes(tmp_path / "whole.mp4"), tmp_path / "broken.mp4")
    with pytest.raises(RefusedMediaError, match="the video is damaged"):
        Attempt(tmp_path).run(path)


def test_a_torn_video_is_told_up_to_the_tear(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mkv", pan(1, 8))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    facts = Attempt(tmp_path).run(path).result["facts"]
    assert 2 < facts["duration_seconds"] < 7


def test_a_lying_duration_is_not_believed(tmp_path: Path) -> None:
    path = two_scenes(tmp_path / "a.mp4")
    data = bytearray(path.read_bytes())
    for name, offset in ((b"mvhd", 20), (b"tkhd", 24), (b"mdhd", 20)):
        at = data.index(name) + offset
        data[at : at + 4] = (2**31 - 1).to_bytes(4, "big")
    path.write_bytes(data)
    result = Attempt(tmp_path).run(path).result
    assert result["content"].startswith("Video, 0:08, ")
    assert result["facts"]["duration_seconds"] == pytest.approx(8, abs=0.1)


def test_one_frame_and_odd_sizes_and_a_turned_phone(tmp_path: Path) -> None:
    one = encode(tmp_path / "one.avi", repeat(np.full((61, 35, 3), 200, np.uint8), 1), codec="ffv1")
    assert "35×61, 1 scene." in Attempt(tmp_path).run(one).result["content"]
    attempt = Attempt(tmp_path)
    turned = make_film(tmp_path / "turned.mp4", "mp4", "libx264", turned=90)
    assert "48×64" in attempt.run(turned).result["content"]
    assert attempt.vision.shapes[0][:2] == (64, 48)


def test_music_is_no_speech(tmp_path: Path) -> None:
    output = Attempt(tmp_path).run(make_film(tmp_path / "a.mp4", "mp4", "libx264", "aac", seconds=2))
    assert "No speech." in output.result["content"]
