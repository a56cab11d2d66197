"""Real speech for tests (see README.md here), and the same in any format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.audio.stream import AudioStream

from mediamill.media.sound import RATE, Samples, SoundReader

HERE = Path(__file__).parent
DASHWOOD = HERE / "speech_dashwood.opus"  # 7 s
DASHWOOD_WORDS = (
    "and mr john dashwood had then leisure to consider how much there might be prudently in his power "
    "to do for them"
)
AMIABLE = HERE / "speech_amiable.opus"  # 3 s
AMIABLE_WORDS = "he might even have been made amiable himself"


def read(path: Path) -> Samples:
    """All of a file's sound."""
    with SoundReader(path) as reader:
        return np.concatenate(list(reader.blocks()))


def silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * RATE), np.float32)


def noise(seconds: float, level: float = 0.05) -> Samples:
    return np.random.default_rng(1).normal(0, level, int(seconds * RATE)).astype(np.float32)


def melody(seconds: float) -> Samples:
    """Chords of plucked strings, two a second."""
    time = np.arange(int(seconds * RATE)) / RATE
    note = 2 ** (np.floor(time * 2) * 5 % 12 / 12)
    strings = sum(np.sin(2 * np.pi * tone * note * time) for tone in (220, 277, 330))
    return np.asarray(0.2 * strings * np.exp(-4 * (time * 2 % 1)), np.float32)


def write(
    path: Path,
    parts: Sequence[Samples],
    codec: str,
    rate: int = RATE,
    *,
    container: str | None = None,
    layout: str = "mono",
    picture: bool = False,
    tags: dict[str, str] | None = None,
) -> Path:
    """The parts one after the other; `picture`: as the sound of a video."""
    with av.open(str(path), "w", format=container) as out:
        out.metadata.update(tags or {})
        video = out.add_stream("mpeg4", rate=5) if picture else None
        sound = cast(AudioStream, out.add_stream(codec, rate=rate, layout=layout))
        if video is not None:
            video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
            frame = av.VideoFrame(64, 48, "yuv420p")
            frame.pts = 0
            out.mux([*video.encode(frame), *video.encode(None)])
        resampler = av.AudioResampler(sound.format.name, layout, rate, sound.codec_context.frame_size or 1024)
        for frames in (*(resampler.resample(_frame(part)) for part in parts), resampler.resample(None)):
            for one in frames:
                out.mux(sound.encode(one))
        out.mux(sound.encode(None))
    return path


def _frame(samples: Samples) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "flt", "mono")
    frame.sample_rate = RATE
    return frame
