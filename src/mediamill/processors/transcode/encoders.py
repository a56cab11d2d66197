"""Which H.264 encoders this machine really has, and how each is set up for one segment.

Graphics cards are listed by libraries that cannot use them: only one that has encoded a picture counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, cast

from mediamill.errors import GiveUpError
from mediamill.media.hls import Segment

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

SOFTWARE = "libx264"
HARDWARE = ("h264_nvenc", "h264_qsv", "h264_vaapi")  # in order of preference
ENCODERS = (*HARDWARE, SOFTWARE)
PRESETS = (*("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"),)
BUFFER_SECONDS = 2  # of the highest rate
FULL, LEAST_FULL = 0.9, 0.25  # with less, the first picture of a segment would look poor
DELAY_FRAMES = 2
LARGE_PIXELS = 1920 * 1440
# Where to look for motion: less than the preset does, for a tenth less work. The 2 % more bytes that it would take are
# saved by the quality, of which nobody can see so little.
LESS_SEARCH = {"veryfast": {"motion-est": "dia", "partitions": "i8x8,i4x4"}}
LESS_QUALITY = 0.15
ENDLESS_GOP = 100_000  # each segment has an encoder of its own, so its first picture is its only keyframe


class UnknownEncoderError(GiveUpError):
    """The encoder that was asked for is not one that we know."""

    code = "unknown_encoder"


@dataclass(frozen=True, slots=True)
class Setup:
    """What an encoder must know of one quality."""

    encoder: str
    preset: str
    width: int
    height: int
    crf: int
    max_rate: int
    timescale: int
    frame_rate: Fraction
    threads: int
    colours: tuple[int, int, int] = (1, 1, 1)  # primaries, transfer, matrix; by default BT.709
    fullness: float = FULL  # of the player's buffer when the segment begins

    @property
    def delay(self) -> int:
        """Ticks that pictures wait for those that are decoded before them: H.264 goes back by two at most here."""
        return round(DELAY_FRAMES * self.timescale / self.frame_rate)

    @property
    def buffer_bits(self) -> int:
        """What a player must be able to hold."""
        return self.max_rate * BUFFER_SECONDS


def is_large(width: int, height: int) -> bool:
    """Are there so many pixels that memory matters?"""
    return width * height > LARGE_PIXELS


@cache
def usable_encoders() -> tuple[str, ...]:
    """Those that have encoded a picture on this machine, best first; tried once in a process."""
    return tuple(name for name in ENCODERS if _can_encode(name))


def choose_encoder(asked: str, before: str | None = None) -> str:
    """The best one for "auto" (rather the one that an earlier attempt used), or the one asked for."""
    if asked not in ("auto", *ENCODERS):
        raise UnknownEncoderError(f"there is no encoder {asked!r}; there are auto, {', '.join(ENCODERS)}")
    if asked == SOFTWARE or (asked == "auto" and before == SOFTWARE):
        return SOFTWARE
    usable = usable_encoders()
    wanted = (asked, before, *usable)
    return next((name for name in wanted if name in usable), SOFTWARE)


def fullness_after(setup: Setup, segments: Iterable[Segment]) -> float:
    """How full a player's buffer is behind these segments: so the highest rate holds over borders, too."""
    bits = setup.buffer_bits * FULL
    for segment in segments:
        bits = min(bits + segment.seconds * setup.max_rate - segment.bytes * 8, setup.buffer_bits * FULL)
        bits = max(bits, setup.buffer_bits * LEAST_FULL)
    return bits / setup.buffer_bits


def open_encoder(setup: Setup) -> VideoCodecContext:
    """An encoder that is ready for the first picture of a segment."""
    from av import CodecContext
    from av.codec.context import Flags
    from av.codec.hwaccel import HWAccel

    vaapi = HWAccel("vaapi") if setup.encoder == "h264_vaapi" else None
    context = cast("VideoCodecContext", CodecContext.create(setup.encoder, "w", hwaccel=vaapi))
    context.width, context.height = setup.width, setup.height
    context.pix_fmt = "yuv420p" if setup.encoder in (SOFTWARE, "h264_nvenc") else "nv12"
    context.time_base, context.framerate = Fraction(1, setup.timescale), setup.frame_rate
    context.color_range = 1
    context.color_primaries, context.color_trc, context.colorspace = setup.colours
    # Threads with a picture each are better, but would take a gigabyte here.
    context.thread_type = "SLICE" if is_large(setup.width, setup.height) else "FRAME"
    context.thread_count = setup.threads
    context.flags |= Flags.global_header | Flags.closed_gop
    context.options = dict(_options(setup))
    context.open()
    return context


def _options(setup: Setup) -> Mapping[str, str]:
    rate = {"maxrate": str(setup.max_rate), "bufsize": str(setup.buffer_bits)}
    shared = {**rate, "g": str(ENDLESS_GOP), "bf": "2"}
    quality = str(setup.crf)
    match setup.encoder:
        case "h264_nvenc":
            return {**shared, "preset": "p5", "rc": "vbr", "cq": quality, "b:v": "0", "forced-idr": "1"}
        case "h264_qsv":
            return {**shared, "global_quality": quality, "preset": "faster", "forced_idr": "1"}
        case "h264_vaapi":
            return {**shared, "rc_mode": "QVBR", "global_quality": quality, "b": str(setup.max_rate)}
    rate["rc_init_occupancy"] = str(round(setup.buffer_bits * setup.fullness))
    if setup.preset in LESS_SEARCH:
        rate.update(LESS_SEARCH[setup.preset])
        quality = str(setup.crf + LESS_QUALITY)
    return {**rate, "preset": setup.preset, "crf": quality, "g": str(ENDLESS_GOP), "sc_threshold": "0"}


def _can_encode(name: str) -> bool:
    import av
    import numpy as np

    setup = Setup(name, "veryfast", 640, 360, 23, 1_000_000, 90_000, Fraction(25), 1)
    try:
        encoder = open_encoder(setup)
        frame = av.VideoFrame.from_ndarray(np.zeros((540, 640), np.uint8), "yuv420p").reformat(
            format=encoder.pix_fmt
        )
        frame.pts, frame.time_base = 0, Fraction(1, 90_000)
        return bool([*encoder.encode(frame), *encoder.encode(None)])
    except (av.FFmpegError, ValueError, OSError, NotImplementedError, RuntimeError):
        return False
