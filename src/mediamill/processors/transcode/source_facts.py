"""What must be known of a source before its first picture is decoded for good: sizes, turns, colours, tracks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from av.video.format import VideoFormat

from mediamill.media.frames import NoPictureError, check_size
from mediamill.media.open_media import as_damage, open_media
from mediamill.media.probe import MediaFacts, moving_pictures, probe
from mediamill.media.source_file import Source
from mediamill.processors.transcode.tone import Tone, tone_of

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

Colours = tuple[int, int, int]  # primaries, transfer, matrix, by the numbers of H.273

BT709: Colours = (1, 1, 1)
BT601: Colours = (6, 6, 6)
UNKNOWN_COLOUR = {0, 2, 3}  # 0: RGB as a matrix, nothing as the others
HIGH_DEFINITION_LINES = 720  # without a word on colours, less is BT.601, as players guess, too
FIRST_INTERLACED_ORDER = 2
MATROSKA_DURATION = re.compile(r"([0-9]{2,4}):([0-9]{2}):([0-9]{2}\.[0-9]{1,9})")  # a tag of each track
PIXEL_SHAPES = (Fraction(1, 8), Fraction(8))


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One video file. Width and height are as seen: upright, with square pixels."""

    media: MediaFacts
    width: int
    height: int
    rotation: int  # degrees clockwise that frames must be turned
    mirrored: bool  # and upside down, before that
    colours: Colours  # of what comes out
    interlaced: bool
    tone: Tone | None  # what must be done for SDR
    claimed_seconds: float  # what the pictures should last, by the file; 0: it does not say
    sound_starts: Fraction | None  # seconds, as the file counts; None: it is silent

    @property
    def duration_seconds(self) -> float:
        """As far as it is known; 0 if not."""
        return self.media.duration_seconds or 0.0

    @property
    def has_sound(self) -> bool:
        """Is there a track of sound that can be decoded?"""
        return self.sound_starts is not None

    @property
    def hdr(self) -> bool:
        """Is it brighter than a usual screen?"""
        return self.tone in ("pq", "hlg")


def find_source_facts(source: Source, mime_type: str | None = None) -> SourceFacts:
    """Refuses what has no moving pictures: an audio file in a video's clothes is no video."""
    media = probe(source, mime_type)
    if media.video is None:
        sound = "only sound, " if media.audio else ""
        raise NoPictureError(f"the file is no video: it has {sound}no moving pictures that can be decoded")
    with open_media(source, media.mime_type) as container, as_damage(media.mime_type):
        stream = next(iter(moving_pictures(container)))
        check_size(stream.width, stream.height)
        tone = tone_of(stream.codec_context.color_trc, stream.codec_context.color_primaries)
        width, height = _square(media.video.width, media.video.height, media.video.rotation, stream)
        return SourceFacts(
            media=media,
            width=width,
            height=height,
            rotation=media.video.rotation,
            mirrored=media.video.mirrored,
            colours=BT709 if tone else _colours_of(stream),
            interlaced=stream.codec_context.field_order >= FIRST_INTERLACED_ORDER,
            tone=tone,
            claimed_seconds=_claimed_seconds(stream),
            sound_starts=_sound_starts(container),
        )


def _claimed_seconds(stream: VideoStream) -> float:
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    told = MATROSKA_DURATION.fullmatch(stream.metadata.get("DURATION", ""))
    return 0.0 if told is None else int(told[1]) * 3600 + int(told[2]) * 60 + float(told[3])


def _square(width: int, height: int, rotation: int, stream: VideoStream) -> tuple[int, int]:
    """The size with square pixels; pixels are stretched, never squeezed, so that none are lost."""
    shape = stream.sample_aspect_ratio or Fraction(1)
    if not PIXEL_SHAPES[0] <= shape <= PIXEL_SHAPES[1]:
        return width, height
    if rotation in (90, 270):
        shape = 1 / shape
    return (round(width * shape), height) if shape > 1 else (width, round(height / shape))


def is_rgb(pixels: VideoFormat) -> bool:
    """Such frames have no matrix: they get that of BT.709."""
    return pixels.is_rgb or pixels.has_palette


def _colours_of(stream: VideoStream) -> Colours:
    context = stream.codec_context
    usual = BT709 if min(stream.width, stream.height) >= HIGH_DEFINITION_LINES else BT601
    if stream.pix_fmt is not None and is_rgb(VideoFormat(stream.pix_fmt)):
        return BT709
    told = (context.color_primaries, context.color_trc, context.colorspace)
    primaries, transfer, matrix = (
        guess if one in UNKNOWN_COLOUR else one for one, guess in zip(told, usual, strict=True)
    )
    return primaries, transfer, matrix


def _sound_starts(container: InputContainer) -> Fraction | None:
    stream = container.streams.best("audio") or next(iter(container.streams.audio), None)
    if stream is None or stream.codec_context is None:
        return None
    return (stream.start_time or 0) * (stream.time_base or Fraction(0))
