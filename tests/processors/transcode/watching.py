"""An output watched to its end, twice: by PyAV, and by ffmpeg and ffprobe of another version."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.container import InputContainer
from numpy.typing import NDArray

from mediamill.media.hls import Playlist, check_output, read_master, read_playlist
from mediamill.processors.contract import ProcessorInput
from mediamill.processors.transcode.processor import TranscodeProcessor
from tests.processors.transcode.odd_clips import run_ffmpeg, run_program

Image = NDArray[np.uint8]
CORNERS = {"red": (255, 0, 0), "lime": (0, 255, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0)}
NEARLY = 10
WHITE = 200  # mean brightness of the flash, at least
LOUD = 0.2


@dataclass(frozen=True)
class Output:
    """What the processor made of a source."""

    folder: Path
    result: Mapping[str, Any]
    _tracks: dict[str, Track] = field(default_factory=dict, repr=False)

    def quality(self, name: str) -> Track:
        return self._tracks.setdefault(name, Track(self.folder, name))  # what it has decoded is kept

    @cached_property
    def qualities(self) -> dict[str, Track]:
        """Those in the master, highest first."""
        names = [one.playlist.removesuffix(".m3u8") for one in self.master.variants]
        return {name: self.quality(name) for name in sorted(names, key=lambda name: -int(name[:-1]))}

    @cached_property
    def master(self) -> Any:
        return read_master((self.folder / "master.m3u8").read_text())

    def faults(self) -> list[str]:
        sizes = {path.name: path.stat().st_size for path in self.folder.iterdir()}
        return check_output(sizes, lambda name: (self.folder / name).read_text())


@dataclass(frozen=True)
class Track:
    """One quality, or the sound, as players see it."""

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.m3u8"

    @cached_property
    def playlist(self) -> Playlist:
        return read_playlist(self.path.read_text())

    @property
    def seconds(self) -> float:
        return sum(segment.seconds for segment in self.playlist.segments)

    @cached_property
    def frames(self) -> list[Seen]:
        """Every picture, decoded by PyAV from the segments put together."""
        with self.opened() as container:
            return [Seen.of(frame) for frame in container.decode(video=0)]

    @cached_property
    def samples(self) -> tuple[float, int, NDArray[np.float32]]:
        """Where the sound starts, its rate, and all of it: channels × samples."""
        with self.opened() as container:
            frames = list(container.decode(audio=0))
            start = float((frames[0].pts or 0) * (frames[0].time_base or 0))
            return (
                start,
                frames[0].sample_rate,
                np.concatenate([frame.to_ndarray() for frame in frames], axis=1),
            )

    def opened(self, *indexes: int) -> InputContainer:
        """Some of its segments, or all of them, behind the init."""
        chosen = indexes or range(len(self.playlist.segments))
        names = [self.playlist.init, *(self.playlist.segments[index].name for index in chosen)]
        return av.open(io.BytesIO(b"".join((self.folder / name).read_bytes() for name in names)), "r")

    @cached_property
    def segment_starts(self) -> list[float]:
        """The time of the first picture of each segment, decoded alone; it must be a keyframe."""
        starts = []
        for index in range(len(self.playlist.segments)):
            with self.opened(index) as container:
                first = Seen.of(next(container.decode(video=0)))
                assert first.is_keyframe
                starts.append(first.time)
        return starts

    @cached_property
    def probe(self) -> dict[str, Any]:
        """What ffprobe says of its stream, and of every packet."""
        return ffprobe(self.path, "-show_streams", "-show_packets")

    def play(self) -> str:
        """What ffmpeg complains of when it decodes all of it."""
        return run_ffmpeg("-v", "warning", "-i", str(self.path), "-f", "null", "-")


@dataclass(frozen=True)
class Seen:
    """One picture."""

    time: float
    seconds: float
    is_keyframe: bool
    width: int
    height: int
    format: str
    colours: tuple[int, int, int]
    frame: av.VideoFrame = field(repr=False)

    @classmethod
    def of(cls, frame: av.VideoFrame) -> Seen:
        base = frame.time_base
        assert frame.pts is not None
        assert base is not None
        return cls(
            time=float(frame.pts * base),
            seconds=float((frame.duration or 0) * base),
            is_keyframe=bool(frame.key_frame),
            width=frame.width,
            height=frame.height,
            format=frame.format.name,
            colours=(int(frame.color_primaries), int(frame.color_trc), int(frame.colorspace)),
            frame=frame,
        )

    @cached_property
    def image(self) -> Image:
        """As it is shown; most of the pictures of a film are never looked at."""
        return np.asarray(self.frame.to_ndarray(format="rgb24"), np.uint8)

    @cached_property
    def brightness(self) -> float:
        return float(self.image.mean())

    def corners(self) -> list[str]:
        """The colours of the corners: top left, top right, bottom left, bottom right. No other colour will do."""
        height, width = self.image.shape[:2]
        places = [(y, x) for y in (height // 4, height * 3 // 4) for x in (width // 4, width * 3 // 4)]
        return [name_of(self.image[place]) for place in places]


def ffprobe(path: Path, *words: str) -> dict[str, Any]:
    """What it says; it must not complain."""
    done = run_program("ffprobe", *words, "-v", "error", "-of", "json", str(path))
    assert done.stderr == ""
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def name_of(pixel: Image) -> str:
    """The colour of a pixel, by its name if it is nearly one of ours."""
    near = (name for name, colour in CORNERS.items() if np.abs(pixel - np.array(colour)).max() <= NEARLY)
    return next(near, str(pixel.tolist()))


def transcode(source: Path, **payload: Any) -> Output:
    """Run the processor as a worker would, with short segments."""
    folder, scratch = source.parent / "kept", source.parent / "scratch"
    folder.mkdir()
    scratch.mkdir()

    def keep(name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None:
        shutil.move(scratch / path, folder / name)

    given = ProcessorInput(
        payload={"preset": "ultrafast", "segment_seconds": 2, **payload},
        mime_type=None,
        file=source,
        folder=scratch,
        checkpoint=None,
        attempt=1,
        report=lambda *_, **__: None,
        keep=keep,
    )
    return Output(folder, TranscodeProcessor((), 600).process(given).result)


def flash_at(track: Track) -> float:
    """When the white pictures begin."""
    return next(frame.time for frame in track.frames if frame.brightness > WHITE)


def beep_at(track: Track, channel: int = 0) -> float:
    """When the sound begins to be heard."""
    start, rate, samples = track.samples
    return start + int(np.argmax(np.abs(samples[channel]) > LOUD)) / rate
