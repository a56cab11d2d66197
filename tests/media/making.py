"""Tiny media files, made for the tests by the real encoders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

# container, video codec, audio codec -> type
FILMS = [
    ("mp4", "libx264", "aac", "video/mp4"),
    ("mp4", "libx264", None, "video/mp4"),
    ("mp4", None, "aac", "audio/mp4"),
    ("ipod", None, "aac", "audio/mp4"),
    ("mov", "libx264", "aac", "video/quicktime"),
    ("mov", None, "aac", "audio/quicktime"),
    ("3gp", "libx264", "aac", "video/3gpp"),
    ("3gp", None, "aac", "audio/3gpp"),
    ("webm", "libvpx-vp9", "libopus", "video/webm"),
    ("webm", None, "libopus", "audio/webm"),
    ("matroska", "libx264", "aac", "video/x-matroska"),
    ("matroska", None, "flac", "audio/x-matroska"),
    ("ogg", None, "libopus", "audio/ogg"),
    ("ogg", None, "flac", "audio/ogg"),
    ("mp3", None, "libmp3lame", "audio/mpeg"),
    ("mp2", None, "mp2", "audio/mpeg"),
    ("adts", None, "aac", "audio/aac"),
    ("flac", None, "flac", "audio/flac"),
    ("wav", None, "pcm_s16le", "audio/wav"),
    ("aiff", None, "pcm_s16be", "audio/aiff"),
    ("caf", None, "pcm_s16be", "audio/x-caf"),
    ("avi", "mpeg4", "libmp3lame", "video/x-msvideo"),
    ("flv", "libx264", "aac", "video/x-flv"),
    ("mpeg", "mpeg2video", "mp2", "video/mpeg"),
    ("mpegts", "libx264", "aac", "video/mp2t"),
    ("asf", "mpeg4", "libmp3lame", "video/x-ms-wmv"),
    ("asf", None, "libmp3lame", "audio/x-ms-wma"),
]

RATE = 48_000
FPS = 10


def make_film(
    path: Path,
    container: str,
    video: str | None = None,
    audio: str | None = None,
    *,
    seconds: int = 1,
    turned: int = 0,
    rate: int = RATE,
    options: dict[str, str] | None = None,
    tags: dict[str, str] | None = None,
) -> Path:
    """Grey frames of 64 × 48 that get brighter, and a tone."""
    with av.open(str(path), "w", format=container, options=options or {}) as out:
        out.metadata.update(tags or {})
        # Both streams must be there before the first packet.
        pictures = _add_video(out, video, turned) if video else None
        sound = cast(AudioStream, out.add_stream(audio, rate=rate, layout="mono")) if audio else None
        if pictures is not None:
            for frame in _frames(seconds):
                out.mux(pictures.encode(frame))
            out.mux(pictures.encode(None))
        if sound is not None:
            for samples in _tone(sound, seconds, rate):
                out.mux(sound.encode(samples))
            out.mux(sound.encode(None))
    return path


def _add_video(out: Any, codec: str, turned: int) -> VideoStream:
    stream = cast(VideoStream, out.add_stream(codec, rate=FPS))
    stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
    stream.codec_context.thread_count = 1  # with more, the bytes differ now and then
    if turned:
        stream.set_display_rotation(turned)
    return stream


def _frames(seconds: int) -> Iterator[av.VideoFrame]:
    for number in range(seconds * FPS):
        frame = av.VideoFrame.from_ndarray(
            np.full((48, 64, 3), number * 5 % 255, dtype=np.uint8), format="rgb24"
        )
        frame.pts = number
        yield frame


def _tone(stream: AudioStream, seconds: int, rate: int) -> Iterator[av.AudioFrame]:
    count = stream.frame_size or 1024
    resampler = av.AudioResampler(format=stream.format.name, layout="mono", rate=rate, frame_size=count)
    samples = (np.sin(np.arange(rate * seconds) / 20) * 8000).astype(np.int16).reshape(1, -1)
    for start in range(0, samples.shape[1], count):
        frame = av.AudioFrame.from_ndarray(samples[:, start : start + count], format="s16", layout="mono")
        frame.sample_rate, frame.pts = rate, start
        yield from resampler.resample(frame)
    yield from resampler.resample(None)
