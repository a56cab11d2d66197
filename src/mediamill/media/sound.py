"""Sound of any file as a stream: 16 kHz, one channel, float32, block by block, in constant memory.

What cannot be decoded is left out and counted, gaps between timestamps become silence, and no length that a
file claims is believed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet
from av.stream import Discard
from numpy.typing import NDArray

from mediamill.media.errors import DamagedMediaError, EmptyMediaError, MediaError, UnsupportedMediaError
from mediamill.media.open_media import open_media

Samples = NDArray[np.float32]  # one channel, -1 to 1

RATE = 16_000
BLOCK_SAMPLES = RATE
RATES = range(1_000, 768_001)  # others are damage; one sample a second would make days of a small file
LONGEST_SECONDS = 100 * 3600.0  # what comes later is not read
JITTER_SECONDS = 0.2  # timestamps that are less wrong than this are right
SILENCE_SECONDS = 2 * 3600.0  # all gaps together; a file that claims more lies
BAD_PACKETS_IN_A_ROW = 20_000  # then it is not sound at all
BAD_BYTES = (
    av.FFmpegError,
    ValueError,
)  # what the library raises for them; memory that ran out is none of these


class NoSoundError(MediaError):
    """The file has no audio track."""

    code = "media_without_sound"


@dataclass(slots=True)
class Heard:
    """What is known of the sound read so far."""

    codec: str
    sample_rate: int
    channels: int
    claimed_seconds: float | None  # by the container; good for a progress bar, no more
    seconds: float = 0.0
    skipped_packets: int = 0  # that could not be decoded
    silence_seconds: float = 0.0  # put in where timestamps leave a gap
    cut_short: bool = False  # the end is missing, or comes too late to be read
    peak: float = 0.0
    squares: float = 0.0

    @property
    def peak_db(self) -> float | None:
        """The loudest sample, in decibels below full scale; None: all is digital silence."""
        return round(20 * math.log10(self.peak), 1) if self.peak > 0 else None

    @property
    def loudness_db(self) -> float | None:
        """The mean power, in decibels below full scale."""
        mean = self.squares / max(1.0, self.seconds * RATE)
        return round(10 * math.log10(mean), 1) if mean > 0 else None


class SoundReader:
    """A file that is open for listening; `heard` grows as `blocks` are read."""

    def __init__(self, path: Path) -> None:
        self._container = open_media(path)
        try:
            self._stream = self._choose_stream()
            context = self._stream.codec_context
            claimed = self._container.duration
            self.heard = Heard(
                codec=context.codec.canonical_name,
                sample_rate=context.sample_rate,
                channels=context.channels,
                claimed_seconds=claimed / 1_000_000 if claimed and claimed > 0 else None,
            )
        except BaseException:
            self._container.close()
            raise
        self._origin = (self._container.start_time or 0) / 1_000_000
        self._clock = 0.0  # seconds of sound that went into the resampler, with silence
        self._resampler: av.AudioResampler | None = None
        self._shape: tuple[object, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def blocks(self) -> Iterator[Samples]:
        """Blocks of one second; the last is shorter. Can be read once."""
        waiting: list[Samples] = []
        count = 0
        for samples in self._samples():
            waiting.append(samples)
            count += len(samples)
            if count < BLOCK_SAMPLES:
                continue
            joined = np.concatenate(waiting)
            whole = count - count % BLOCK_SAMPLES
            for start in range(0, whole, BLOCK_SAMPLES):
                yield self._measure(joined[start : start + BLOCK_SAMPLES])
            if self.heard.seconds >= LONGEST_SECONDS:
                self.heard.cut_short = True
                return
            waiting, count = [joined[whole:].copy()], count - whole
        if count:
            yield self._measure(np.concatenate(waiting))
        self._check_something_was_heard()

    def _choose_stream(self) -> AudioStream:
        streams = self._container.streams
        stream = streams.best("audio") or next(iter(streams.audio), None)
        if not isinstance(stream, AudioStream):
            raise NoSoundError("the file has no audio track")
        if stream.codec_context is None:
            raise UnsupportedMediaError("the audio track is in a format that nobody here can decode")
        for other in streams:
            if other is not stream:
                other.discard = Discard.all  # pictures of a video are not even read
        return stream

    def _measure(self, block: Samples) -> Samples:
        """Make it clean (files of floats may hold anything), and keep account of it."""
        np.nan_to_num(block, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        np.clip(block, -1.0, 1.0, out=block)
        self.heard.seconds += len(block) / RATE
        self.heard.peak = max(self.heard.peak, float(np.abs(block).max()))
        self.heard.squares += float(np.dot(block, block))
        return block

    def _samples(self) -> Iterator[Samples]:
        for frame in self._frames():
            yield from self._silence_before(frame)
            try:
                yield from self._resample(frame)
            except BAD_BYTES:  # a layout that nobody can mix, or a frame that contradicts itself
                self.heard.skipped_packets += 1
            self._clock += frame.samples / frame.sample_rate
        yield from self._flush()

    def _frames(self) -> Iterator[AudioFrame]:
        bad_in_a_row = 0
        for packet in self._packets():
            try:
                frames = self._stream.decode(packet)
            except BAD_BYTES:
                self.heard.skipped_packets += 1
                bad_in_a_row += 1
                if bad_in_a_row > BAD_PACKETS_IN_A_ROW:
                    self.heard.cut_short = True
                    return
                continue
            bad_in_a_row = 0
            for frame in frames:
                if frame.samples > 0 and frame.sample_rate in RATES:
                    yield frame
                else:
                    self.heard.skipped_packets += 1

    def _packets(self) -> Iterator[Packet[AudioStream]]:
        packets = self._container.demux(self._stream)
        while True:
            try:
                yield next(packets)
            except StopIteration:
                return
            except BAD_BYTES:  # the file ends in the middle of something
                self.heard.cut_short = True
                return

    def _silence_before(self, frame: AudioFrame) -> Iterator[Samples]:
        """Timestamps that jump ahead leave silence behind; those that jump back or too far are closed up."""
        if frame.pts is None or frame.time_base is None:
            return
        gap = float(frame.pts * frame.time_base) - self._origin - self._clock
        if abs(gap) <= JITTER_SECONDS:
            return
        room = SILENCE_SECONDS - self.heard.silence_seconds
        silence = gap if 0 < gap <= room else 0.0
        self._origin += gap - silence
        self._clock += silence
        self.heard.silence_seconds += silence
        left = int(silence * RATE)
        while left > 0:
            part = min(left, BLOCK_SAMPLES)
            yield np.zeros(part, np.float32)
            left -= part

    def _resample(self, frame: AudioFrame) -> Iterator[Samples]:
        import av

        shape = (frame.format.name, frame.layout.name, frame.layout.nb_channels, frame.sample_rate)
        if shape != self._shape or self._resampler is None:
            yield from self._flush()
            self._resampler, self._shape = av.AudioResampler("flt", "mono", RATE), shape
        frame.pts = None  # we keep the time ourselves
        for out in self._resampler.resample(frame):
            yield out.to_ndarray().astype(np.float32, copy=False).reshape(-1)

    def _flush(self) -> Iterator[Samples]:
        """What the resampler still holds."""
        resampler, self._resampler = self._resampler, None
        if resampler is None:
            return
        for out in resampler.resample(None):
            yield out.to_ndarray().astype(np.float32, copy=False).reshape(-1)

    def _check_something_was_heard(self) -> None:
        if self.heard.seconds > 0:
            return
        if self.heard.skipped_packets:
            raise DamagedMediaError(
                f"the audio ({self.heard.codec}) is damaged: nothing of it can be decoded, "
                f"{self.heard.skipped_packets} packets were tried"
            )
        raise EmptyMediaError("the audio track is empty (0 seconds)")
