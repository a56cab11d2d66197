"""Frames of a stranger's video: all of them, tiny and grey, for the scene scan; or one of them, whole and upright.

What cannot be decoded is left out and counted, a torn end is kept up to the tear, and times always grow.
The scan costs little more than decoding: one scaler, kept for the whole file, makes 160 × 160 grey pixels in one
pass; the 32 × 32 pixels and the sharpness come from those. A scaler for each frame costs a fifth of the scan.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

import av
import cv2
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet
from av.stream import Discard
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace, Interpolation, VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from mediamill.media.errors import MediaError, MediaTooLargeError
from mediamill.media.open_media import as_damage, open_media, reason_of
from mediamill.media.probe import clockwise, is_mirrored, moving_pictures
from mediamill.media.source_file import Source

Gray = NDArray[np.uint8]  # height × width
Pixels = NDArray[np.uint8]  # height × width × 3, RGB, upright
OnSound = Callable[[AudioFrame], None]

TINY = 32
SMALL = 160  # five times TINY: its pixels fold into the tiny ones
MOST_PIXELS = 8192 * 4608  # of one frame
FEW_PIXELS = 4096 * 2304  # larger frames are decoded by one thread: each more holds frames of its own
MOST_FRAMES = 5_000_000  # 23 hours at 60 a second
MOST_INDEX_ENTRIES = 5_000_000
MOST_FRAMES_AFTER_SEEK = 1_500  # of one group of pictures; the last of them must do then
MOST_PACKETS_TO_KEYFRAME = 500
MOST_BAD_PACKETS = 20_000  # in a row; then it is not video at all
LONGEST_STEP_SECONDS = 24 * 3600.0  # a larger step from one frame to the next is a lie
LONGEST_DELAY_SECONDS = 5
USUAL_RATE = Fraction(25)
SEEKABLE = ("mov", "matroska")  # readers whose seeks land where they say


class NoPictureError(MediaError):
    """The file has no moving pictures that can be decoded."""

    code = "media_without_picture"


@dataclass(frozen=True, slots=True)
class Glance:
    """One frame as the scene scan sees it."""

    time_seconds: float
    tiny: Gray  # 32 × 32
    sharpness: float  # mean square of the Laplacian, at 160 × 160


@dataclass(frozen=True, slots=True)
class Picture:
    """One frame as a person sees it."""

    time_seconds: float
    is_keyframe: bool
    pixels: Pixels


@dataclass(slots=True)
class Damage:
    """What was left out of a file so far."""

    bad_packets: int = 0
    torn: str | None = None  # why reading ended before the end
    cut_short: bool = False  # more frames than we read

    def as_facts(self) -> dict[str, object]:
        """Only what is wrong."""
        facts = {"bad_packets": self.bad_packets, "torn": self.torn, "cut_short": self.cut_short}
        return {name: value for name, value in facts.items() if value}


@dataclass(slots=True)
class Clock:
    """Times in seconds from the start of the file; frames without one, or with one that goes back, follow on."""

    origin: float
    step: float
    last: float | None = field(default=None)
    mended: bool = False  # a time was missing or went back: who begins later would count in another way

    def read(self, frame: VideoFrame) -> float:
        """The time of the next frame of a run."""
        told = time_of(frame, self.origin)
        if self.last is None:
            self.last = max(0.0, told or 0.0)
            self.mended = told is None or told < 0
        elif told is not None and self.last < told <= self.last + LONGEST_STEP_SECONDS:
            self.last = told
        else:
            self.last += self.step
            self.mended = True
        return self.last


def time_of(frame: VideoFrame, origin: float) -> float | None:
    """What the file claims."""
    pts = frame.pts if frame.pts is not None else frame.dts
    base = frame.time_base
    return None if pts is None or base is None else pts * base.numerator / base.denominator - origin


class Footage:
    """A video file that is open for watching; `damage` grows as it is read.

    `rough`: edges between blocks are not smoothed, which a look at 160 × 160 does not see and takes a fifth less time.
    `on_sound`: is given the frames of sound that lie between those of the pictures, until `stop_sound`.
    """

    def __init__(
        self,
        source: Source,
        mime_type: str | None = None,
        threads: int = 1,
        *,
        rough: bool = False,
        on_sound: OnSound | None = None,
    ) -> None:
        self.damage = Damage()
        self._scaler = VideoReformatter()
        self._on_sound = on_sound
        self._sound: AudioStream | None = None
        self._container = open_media(source, mime_type)
        try:
            with as_damage(mime_type or "video"):
                self.stream = self._choose_stream(threads, rough)
        except BaseException:
            self._container.close()
            raise
        rate = self.stream.average_rate or self.stream.guessed_rate
        self.frame_seconds = float(1 / rate) if rate and 1 / 60 <= rate <= 1000 else float(1 / USUAL_RATE)
        shape = self.stream.sample_aspect_ratio
        self.pixel_shape = float(shape) if shape and Fraction(1, 8) <= shape <= 8 else 1.0  # width / height
        self.origin = (self._container.start_time or 0) / av.time_base
        self.clock = Clock(self.origin, self.frame_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def glances(self) -> Iterator[Glance]:
        """Every frame of the file from its start, in order of time."""
        return (self.glance_at(frame, at) for at, frame in self.frames())

    def glance_at(self, frame: VideoFrame, time_seconds: float) -> Glance:
        """A frame as the scene scan sees it."""
        small = self._shrink(frame)
        return Glance(time_seconds, to_tiny(small), sharpness_of(small))

    @property
    def seeks_exactly(self) -> bool:
        """Would a reader that begins in the middle count the same times as one that began at the start?"""
        return not self.clock.mended and self._container.format.name.split(",")[0] in SEEKABLE

    def frames(self, start_seconds: float | None = None) -> Iterator[tuple[float, VideoFrame]]:
        """Every frame with its time: of a file just opened all of them, or from a keyframe before a time."""
        if start_seconds is not None and not self._seek(start_seconds):
            return
        self.clock = Clock(self.origin, self.frame_seconds)
        for count, frame in enumerate(self._frames()):
            if count >= MOST_FRAMES:
                self.damage.cut_short = True
                return
            yield self.clock.read(frame), frame

    def stop_sound(self) -> None:
        """From here on the packets of sound are not even read."""
        if self._sound is not None:
            self._sound.discard = Discard.all
        self._on_sound = None

    def keyframe_times(self) -> list[float]:
        """Where decoding can start, as far as the index of the file tells; empty if it has none."""
        base = self.stream.time_base
        entries = self.stream.index_entries
        if not base or len(entries) > MOST_INDEX_ENTRIES:
            return []
        marks = [entry.timestamp for entry in entries if entry.is_keyframe and not entry.is_discard]
        # The index of MP4 has times of decoding; frames are shown later, all by as much as the first one.
        delay = (self.stream.start_time or 0) - marks[0] if marks else 0
        if not 0 < delay * base < LONGEST_DELAY_SECONDS:
            delay = 0
        return [max(0.0, float((mark + delay) * base) - self.origin) for mark in marks]

    def picture_at(self, seconds: float, longest_side: int) -> Picture | None:
        """The frame that is shown at a time, or the last before it; None if there is none."""
        found = self.frame_at(seconds)
        if found is None:
            return None
        at, frame = found
        return Picture(at, bool(frame.key_frame), upright(frame, longest_side, self.pixel_shape))

    def frame_at(self, seconds: float) -> tuple[float, VideoFrame] | None:
        """By seeking to the keyframe before it and decoding from there."""
        if not self._seek(seconds):
            return None
        found: tuple[float, VideoFrame] | None = None
        clock = Clock(self.origin, self.frame_seconds)
        for count, frame in enumerate(self._frames()):
            at = clock.read(frame)
            if found is not None and at > seconds + self.frame_seconds / 2:
                return found
            found = at, frame
            if count >= MOST_FRAMES_AFTER_SEEK:
                return found
        return found

    def keyframe_at(self, seconds: float) -> tuple[float, VideoFrame] | None:
        """The keyframe that the index puts at this time; nothing behind it is decoded."""
        if not self._seek(seconds):
            return None
        try:
            for packet in itertools.islice(self._container.demux(self.stream), MOST_PACKETS_TO_KEYFRAME):
                if packet.is_keyframe:
                    # The decoder holds frames back until later ones tell their order; the end makes it let go.
                    frames = [*self.stream.decode(packet), *self._drain()]
                    return (self._time_or(frames[0], seconds), frames[0]) if frames else None
        except (av.FFmpegError, ValueError):
            self.damage.bad_packets += 1
        return None

    def _time_or(self, frame: VideoFrame, seconds: float) -> float:
        told = time_of(frame, self.origin)
        return seconds if told is None else max(0.0, told)

    def tiny_of(self, frame: VideoFrame) -> Pixels:
        """A frame at 32 × 32, in colour."""
        return to_tiny(self._shrink(frame, "rgb24"))

    def _choose_stream(self, threads: int, rough: bool) -> VideoStream:
        stream = next(iter(moving_pictures(self._container)), None)
        if stream is None:
            raise NoPictureError("the file has no moving pictures that can be decoded")
        check_size(stream.width, stream.height)
        if self._on_sound is not None:
            best = self._container.streams.best("audio")
            self._sound = best if isinstance(best, AudioStream) and best.codec_context is not None else None
        for other in self._container.streams:
            if other is not stream and other is not self._sound:
                other.discard = Discard.all
        few = stream.width * stream.height <= FEW_PIXELS
        stream.codec_context.thread_count = threads if few else 1
        stream.thread_type = "FRAME" if few and threads > 1 else "SLICE"
        # A stream may change its size on the way; the decoder must refuse what we would.
        stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
        if rough:
            stream.codec_context.options |= {"skip_loop_filter": "all"}
        return stream

    def _seek(self, seconds: float) -> bool:
        base = self.stream.time_base or Fraction(1, av.time_base)
        target = int((max(0.0, seconds) + self.frame_seconds / 4 + self.origin) / base)
        try:
            self._container.seek(target, stream=self.stream, backward=True)
        except (av.FFmpegError, OverflowError):
            return False
        return True

    def _frames(self) -> Iterator[VideoFrame]:
        """What can be decoded from here on. Errors of one packet cost that packet only."""
        bad_in_a_row = 0
        packets = self._container.demux([self.stream, *([self._sound] if self._sound is not None else [])])
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except (av.FFmpegError, ValueError) as error:
                self.damage.torn = reason_of(error)
                yield from self._drain()
                return
            if packet.stream is self._sound:
                self._hear(packet)
                continue
            try:
                frames = self.stream.decode(packet)
                bad_in_a_row = 0
            except MemoryError:
                raise
            except (av.FFmpegError, ValueError):
                self.damage.bad_packets += 1
                bad_in_a_row += 1
                if bad_in_a_row >= MOST_BAD_PACKETS:
                    self.damage.torn = "its data makes no sense"
                    return
                continue
            yield from frames

    def _hear(self, packet: Packet[Any]) -> None:
        """Sound that cannot be decoded is left out in silence: it is not what is looked for."""
        if self._on_sound is not None and self._sound is not None:
            with contextlib.suppress(av.FFmpegError, ValueError):
                for frame in self._sound.decode(packet):
                    self._on_sound(frame)

    def _drain(self) -> Iterator[VideoFrame]:
        """The frames that the decoder still holds when the file ends in a tear."""
        try:
            yield from self.stream.decode(None)
        except (av.FFmpegError, ValueError):
            self.damage.bad_packets += 1

    def _shrink(self, frame: VideoFrame, pixel_format: str = "gray") -> NDArray[np.uint8]:
        check_size(frame.width, frame.height)
        small = self._scaler.reformat(
            frame, SMALL, SMALL, pixel_format, interpolation=Interpolation.AREA, threads=1
        )
        return np.asarray(small.to_ndarray(), np.uint8)


def check_size(width: int, height: int) -> None:
    """Refuse frames that would take too much memory."""
    if width * height > MOST_PIXELS:
        raise MediaTooLargeError(f"the video has {width} × {height} pixels; the limit is {MOST_PIXELS}")


def to_tiny(small: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fold 160 × 160 into 32 × 32."""
    return np.asarray(cv2.resize(small, (TINY, TINY), interpolation=cv2.INTER_AREA), np.uint8)


def sharpness_of(small: Gray) -> float:
    """How much detail there is: blurred frames have a weak Laplacian."""
    edges = cv2.Laplacian(small, cv2.CV_16S)
    return round(cv2.norm(edges, cv2.NORM_L2SQR) / small.size, 3)


def upright(frame: VideoFrame, longest_side: int, pixel_shape: float = 1.0) -> Pixels:
    """The frame in RGB, as it is to be seen: turned, with square pixels, no larger than asked for."""
    return np.asarray(upright_as("rgb24", frame, longest_side, pixel_shape), np.uint8)


def upright_as(
    pixel_format: str,
    frame: VideoFrame,
    longest_side: int,
    pixel_shape: float = 1.0,
    matrix: Colorspace | None = None,
) -> NDArray[np.integer[Any]]:
    """The same in another packed RGB format. `matrix`: that of its colours, if it is not to be taken as tagged."""
    check_size(frame.width, frame.height)
    width, height = frame.width * max(1.0, pixel_shape), frame.height / min(1.0, pixel_shape)
    scale = min(1.0, longest_side / max(width, height))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    rgb = VideoReformatter().reformat(
        frame, *size, pixel_format, src_colorspace=matrix, interpolation=Interpolation.AREA, threads=1
    )
    pixels = rgb.to_ndarray()[::-1] if is_mirrored(frame) else rgb.to_ndarray()
    return np.ascontiguousarray(np.rot90(pixels, -(clockwise(frame) // 90)))
