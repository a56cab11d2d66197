"""Tiny videos whose pictures and sound can be told apart: each picture has its number in it, the sound ticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

SOUND_RATE = 48_000
BITS = 10  # of a picture's number, as bright and dark bars
TICK_SECONDS, FIRST_TICK = 0.5, 0.25  # the sound's ticks are as far apart, and begin here


@dataclass(frozen=True)
class Film:
    """What to make. `ticks`: the times of the pictures, in milliseconds; by default as `rate` says."""

    width: int = 320
    height: int = 180
    seconds: float = 6.0
    rate: Fraction = Fraction(25)
    gop: int = 40
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    sound: str | None = "stereo"  # a layout
    sound_codec: str = "aac"
    ticks: tuple[int, ...] | None = None


def make_clip(path: Path, film: Film | None = None) -> Path:
    """Write it; the name decides the container."""
    film = film or Film()
    with av.open(str(path), "w") as out:
        pictures = out.add_stream(film.codec, rate=film.rate)
        assert isinstance(pictures, av.VideoStream)
        pictures.width, pictures.height, pictures.pix_fmt = film.width, film.height, film.pixel_format
        pictures.codec_context.gop_size = film.gop
        if film.codec == "libx264":
            pictures.codec_context.options = {"preset": "ultrafast", "crf": "12", "bf": "2"}
        if film.ticks is not None:
            pictures.codec_context.time_base = Fraction(1, 1000)
        sound = out.add_stream(film.sound_codec, rate=SOUND_RATE, layout=film.sound) if film.sound else None
        for number, pts in enumerate(_times(film)):
            frame = av.VideoFrame.from_ndarray(numbered(number, film.width, film.height), "rgb24")
            frame.pts, frame.time_base = pts, pictures.codec_context.time_base or 1 / film.rate
            out.mux(pictures.encode(frame))
        out.mux(pictures.encode(None))
        if isinstance(sound, av.AudioStream):
            for block in _ticking(film.seconds, sound.layout.nb_channels, str(film.sound)):
                out.mux(sound.encode(block))
            out.mux(sound.encode(None))
    return path


def numbered(number: int, width: int, height: int) -> Image:
    """The number in bars from left to right (bright is 1), on a grey that is never still."""
    image = np.full((height, width, 3), 90 + number % 40, np.uint8)
    for bit in range(BITS):
        left, right = width * bit // BITS, width * (bit + 1) // BITS
        image[height // 4 : height * 3 // 4, left:right] = 230 if number >> bit & 1 else 20
    return image


def number_of(image: Image) -> int:
    """Reads it back, at any size."""
    height, width = image.shape[:2]
    middles = [width * (2 * bit + 1) // (2 * BITS) for bit in range(BITS)]
    return sum(1 << bit for bit, x in enumerate(middles) if image[height // 2, x].mean() > 128)


def _times(film: Film) -> Iterable[int]:
    return film.ticks if film.ticks is not None else range(round(film.seconds * film.rate))


def _ticking(seconds: float, channels: int, layout: str) -> Iterator[av.AudioFrame]:
    """Silence with a short tone every half second."""
    at = np.arange(int(seconds * SOUND_RATE)) / SOUND_RATE
    wave = np.where((at - FIRST_TICK) % TICK_SECONDS < 0.02, 0.6 * np.sin(2 * np.pi * 1000 * at), 0).astype(
        np.float32
    )
    for start in range(0, len(wave), 1024):
        block = np.repeat(wave[None, start : start + 1024], channels, axis=0)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block), "fltp", layout)
        frame.sample_rate, frame.pts, frame.time_base = SOUND_RATE, start, Fraction(1, SOUND_RATE)
        yield frame
