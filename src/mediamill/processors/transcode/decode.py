"""The source's pictures, decoded once for all qualities: from its start, or from a keyframe before a border.

Times are counted from the first picture or sound. Errors of one packet cost that packet; a torn end is kept up to the
tear. Times that go back or are missing are mended, which a run that begins later could not do in the same way: so
whoever saw that says so (`is_regular`), and the next attempt reads from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
from av.stream import Discard
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from mediamill.media.errors import DamagedMediaError
from mediamill.media.frames import NoPictureError, check_size
from mediamill.media.open_media import open_media, reason_of
from mediamill.media.probe import moving_pictures
from mediamill.processors.transcode.timeline import Shown

MOST_PIXELS = 8192 * 4608  # of one frame; as frames.py has it
LARGE_PIXELS = 2560 * 1440
MOST_THREADS, FEW_THREADS = 16, 4  # each holds frames of its own
USUAL_RATE = Fraction(25)
RATES = (Fraction(1, 60), Fraction(1000))
USUAL_TIMESCALE = 90_000
TIMESCALES = range(1000, 1_000_001)
LONGEST_STEP_SECONDS = 3600  # from one picture to the next; more is a lie
LONGEST_LEAD_SECONDS = 10  # of sound before the first picture
MOST_BAD_PACKETS = 20_000  # in a row; then it is not video at all
SEEKABLE = ("mov", "matroska")  # readers whose seeks land where they say
SEEK_BACK_SECONDS = (0, 5, 30)
BAD_BYTES = (av.FFmpegError, ValueError)


@dataclass(slots=True)
class Trouble:
    """What was left out of the pictures."""

    bad_packets: int = 0
    torn: str | None = None


@dataclass(frozen=True, slots=True)
class Clockwork:
    """How the pictures are timed: ticks of what length, from where, and how long one usually stands."""

    timescale: int
    origin: Fraction  # seconds
    frame_seconds: Fraction

    @classmethod
    def of(cls, stream: VideoStream, sound_starts: Fraction | None) -> Clockwork:
        """Ticks of the source, if they are usual ones: then no time is rounded."""
        base = stream.time_base
        exact = base is not None and base.numerator == 1 and base.denominator in TIMESCALES
        rate = stream.average_rate or stream.guessed_rate or USUAL_RATE
        starts = (stream.start_time or 0) * (base or Fraction(0))
        origin = starts if sound_starts is None else min(starts, sound_starts)
        return cls(
            timescale=base.denominator if base is not None and exact else USUAL_TIMESCALE,
            origin=max(origin, starts - LONGEST_LEAD_SECONDS),
            frame_seconds=1 / rate if RATES[0] <= rate <= RATES[1] else 1 / USUAL_RATE,
        )

    def ticks_of(self, seconds: Fraction) -> int:
        """A time of the source."""
        return round((seconds - self.origin) * self.timescale)


class PictureSource:
    """A video that is open for decoding, once. `trouble` and `is_regular` grow as it is read."""

    def __init__(
        self, path: Path, mime_type: str, threads: int, sound_starts: Fraction | None = None
    ) -> None:
        self.trouble, self.is_regular = Trouble(), True
        self._path, self._mime_type, self._threads = path, mime_type, threads
        self._open()
        self.clockwork = Clockwork.of(self.stream, sound_starts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def pictures(self, from_ticks: int = 0) -> Iterator[Shown[VideoFrame]]:
        """All pictures with rising times; if `from_ticks` is not 0, from the last keyframe before it."""
        for back in SEEK_BACK_SECONDS if from_ticks > 0 and self._can_seek() else ():
            target = from_ticks - back * self.clockwork.timescale
            if target <= 0 or not self._seek(target):
                break
            frames = self._timed(self._frames())
            first = next(frames, None)
            if first is not None and first.ticks <= from_ticks:
                yield first
                yield from frames
                return
            self._reopen()
        yield from self._from_start()

    def _from_start(self) -> Iterator[Shown[VideoFrame]]:
        """The first picture is there from the very beginning, also if the sound begins before it."""
        frames = self._timed(self._frames())
        first = next(frames, None)
        if first is None:
            raise DamagedMediaError("the video is damaged: not one picture of it can be decoded")
        yield Shown(0, first.ticks + first.duration, first.picture)
        yield from frames

    def _timed(self, frames: Iterator[VideoFrame]) -> Iterator[Shown[VideoFrame]]:
        clock, last = self.clockwork, None
        step = max(1, round(clock.frame_seconds * clock.timescale))
        for frame in frames:
            base = frame.time_base or Fraction(0)
            told = None if frame.pts is None else clock.ticks_of(frame.pts * base)
            if last is None:
                ticks = max(0, told or 0)
            elif told is not None and last < told <= last + LONGEST_STEP_SECONDS * clock.timescale:
                ticks = told
            else:
                ticks, self.is_regular = last + step, False
            yield Shown(ticks, self._duration(frame, ticks, step), frame)
            last = ticks

    def _duration(self, frame: VideoFrame, ticks: int, step: int) -> int:
        """How long a picture stands, if it is the last. Where the order was changed, files mix durations up, too."""
        clock, stream = self.clockwork, self.stream
        told = round((frame.duration or 0) * (frame.time_base or 0) * clock.timescale) or step
        if stream.codec_context.has_b_frames and stream.duration and stream.time_base:
            end = clock.ticks_of(((stream.start_time or 0) + stream.duration) * stream.time_base)
            told = min(told, max(step, end - ticks))
        return min(told, LONGEST_STEP_SECONDS * clock.timescale)

    def _frames(self) -> Iterator[VideoFrame]:
        bad_in_a_row = 0
        packets = self._container.demux(self.stream)
        while True:
            try:
                packet = next(packets, None)
            except BAD_BYTES as error:
                self.trouble.torn = reason_of(error)
                packet = None
            try:
                # The end of the file comes as an empty packet; a tear has none, but the decoder holds frames still.
                frames = self.stream.decode(packet)
                bad_in_a_row = 0
            except BAD_BYTES:
                frames = []
                self.trouble.bad_packets += 1
                bad_in_a_row += 1
            yield from frames
            if packet is None or packet.size == 0:
                return
            if bad_in_a_row >= MOST_BAD_PACKETS:
                self.trouble.torn = "its data makes no sense"
                return

    def _open(self) -> None:
        self._container = open_media(self._path, self._mime_type)
        try:
            self.stream = self._choose_stream()
        except BaseException:
            self._container.close()
            raise

    def _reopen(self) -> None:
        self._container.close()
        self.trouble = Trouble()
        self._open()

    def _choose_stream(self) -> VideoStream:
        stream = next(iter(moving_pictures(self._container)), None)
        if stream is None:
            raise NoPictureError("the file has no moving pictures that can be decoded")
        check_size(stream.width, stream.height)
        for other in self._container.streams:
            if other is not stream:
                other.discard = Discard.all
        large = stream.width * stream.height > LARGE_PIXELS
        stream.codec_context.thread_count = min(self._threads, FEW_THREADS if large else MOST_THREADS)
        stream.thread_type = "AUTO"
        stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
        return stream

    def _can_seek(self) -> bool:
        return self._container.format.name.startswith(SEEKABLE)

    def _seek(self, ticks: int) -> bool:
        clock = self.clockwork
        seconds = Fraction(ticks, clock.timescale) + clock.origin + clock.frame_seconds / 4
        try:
            self._container.seek(int(seconds / (self.stream.time_base or 1)), stream=self.stream)
        except (*BAD_BYTES, OverflowError):
            return False
        return True
