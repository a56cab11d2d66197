"""Files that are large: a gigabyte of sound, a gigabyte of video, two hundred megapixels."""

from __future__ import annotations

import wave
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyvips

from bench.media.scene_scan import make_clip

RATE, CHANNELS = 48_000, 2
BYTES_PER_SECOND = RATE * CHANNELS * 2
CLIP_SECONDS = 5


def make_sound(voice: Path, path: Path, size_bytes: int) -> float:
    """A WAV file that is silent but for the voice at its begin, middle and end. Seconds of it."""
    spoken = read_voice(voice).tobytes()
    whole = size_bytes // BYTES_PER_SECOND * BYTES_PER_SECOND
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(CHANNELS)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.setnframes(whole // (CHANNELS * 2))
        sound.writeframesraw(b"")  # writes the header
    with path.open("r+b") as file:
        header = file.seek(0, 2)
        file.truncate(header + whole)  # silence takes no room on the disk
        for start in (0, whole // 2, whole - len(spoken)):
            file.seek(header + start // 4 * 4)
            file.write(spoken)
    return whole / BYTES_PER_SECOND


def read_voice(voice: Path) -> Any:
    """Samples of 16 bits, frame by frame."""
    resampler = av.AudioResampler("s16", "stereo", RATE)
    with av.open(str(voice)) as container:
        parts = [out.to_ndarray() for frame in container.decode(audio=0) for out in resampler.resample(frame)]
        parts += [out.to_ndarray() for out in resampler.resample(None)]
    return np.concatenate(parts, axis=1).reshape(-1)


def make_video(voice: Path, folder: Path, path: Path, size_bytes: int, *, crf: int) -> float:
    """One clip, its packets over and over; somebody speaks at the begin. Seconds of it."""
    clip = folder / "clip.mp4"
    make_clip(clip, CLIP_SECONDS, crf=crf)
    with av.open(str(clip)) as source, av.open(str(path), "w") as target:
        track = source.streams.video[0]
        pictures = target.add_stream_from_template(track)
        sound = target.add_stream("aac", rate=RATE, layout="stereo")
        packets = [
            (bytes(p), p.pts, p.dts, p.is_keyframe)
            for p in source.demux(track)
            if p.pts is not None and p.dts is not None
        ]
        base = track.time_base
        assert base is not None
        turns = max(1, round(size_bytes / clip.stat().st_size))
        spoken = _sound_of(voice, turns * CLIP_SECONDS)
        for turn in range(turns):
            shift = round(turn * CLIP_SECONDS / base)
            for data, pts, dts, is_keyframe in packets:
                packet = av.Packet(data)
                packet.stream, packet.time_base, packet.is_keyframe = pictures, base, is_keyframe
                packet.pts, packet.dts = pts + shift, dts + shift
                target.mux(packet)
            for _ in range(CLIP_SECONDS):
                target.mux(sound.encode(next(spoken)))
        target.mux(sound.encode(None))
    clip.unlink()
    return float(turns * CLIP_SECONDS)


def _sound_of(voice: Path, seconds: int) -> Iterator[av.AudioFrame]:
    """Frames of a second: the voice, then silence."""
    spoken = read_voice(voice)
    for second in range(seconds):
        part = np.zeros(RATE * CHANNELS, np.int16)
        there = spoken[second * part.size : (second + 1) * part.size]
        part[: there.size] = there
        frame = av.AudioFrame.from_ndarray(part.reshape(1, -1), "s16", "stereo")
        frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), second * RATE
        yield frame


def make_huge_photo(photo: Path, path: Path, megapixels: int) -> None:
    """A photograph laid out like tiles."""
    tile = pyvips.Image.new_from_file(str(photo))
    width, height = 16_000, megapixels * 1_000_000 // 16_000
    whole = tile.replicate(-(-width // tile.width), -(-height // tile.height)).crop(0, 0, width, height)
    whole.jpegsave(str(path), Q=92)
