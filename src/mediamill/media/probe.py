"""Facts about sound and video without decoding it all: streams, sizes, turns, and how long it really is."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from mediamill.media.duration import find_duration
from mediamill.media.open_media import as_damage, open_media, type_of
from mediamill.media.source_file import Source

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

__all__ = [
    "AudioFacts",
    "MediaFacts",
    "VideoFacts",
    "clockwise",
    "is_mirrored",
    "moving_pictures",
    "open_media",
    "probe",
]

HDR_TRANSFERS = {16, 18}  # PQ and HLG
MOST_PIXELS = 8192 * 8192  # of a frame that is decoded to learn how it is turned
FIRST_FRAME_PACKETS = 100
TAG_NAMES = (
    *("title", "artist", "album", "album_artist", "composer", "genre", "track", "date", "creation_time"),
    *("comment", "description", "location", "make", "model", "com.apple.quicktime.make"),
    *(
        "com.apple.quicktime.creationdate",
        "com.apple.quicktime.model",
        "com.apple.quicktime.location.ISO6709",
    ),
)
TAG_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """The first stream of moving pictures. Width and height are as seen, after the rotation."""

    codec: str
    width: int
    height: int
    rotation: int  # degrees clockwise that the decoded frames must be turned: 0, 90, 180 or 270
    fps: float | None
    pixel_format: str | None
    hdr: bool
    mirrored: bool = False  # the decoded frames must be turned upside down, before they are rotated


@dataclass(frozen=True, slots=True)
class AudioFacts:
    """The first stream of sound."""

    codec: str
    sample_rate: int
    channels: int
    language: str | None


@dataclass(frozen=True, slots=True)
class MediaFacts:
    """What a file of sound or video is. A cover picture is not video."""

    mime_type: str
    container: str
    duration_seconds: float | None  # None: it cannot be told without reading it all
    bit_rate: int | None
    video: VideoFacts | None
    audio: AudioFacts | None
    tags: Mapping[str, str]

    @property
    def has_video(self) -> bool:
        """Is there anything to watch?"""
        return self.video is not None

    @property
    def has_audio(self) -> bool:
        """Is there anything to hear?"""
        return self.audio is not None


def probe(source: Source, mime_type: str | None = None) -> MediaFacts:
    """Read the facts. Raises DamagedMediaError, or UnsupportedMediaError for what is no sound or video."""
    mime_type = mime_type or type_of(source)
    with open_media(source, mime_type) as container, as_damage(mime_type):
        video = next(iter(moving_pictures(container)), None)
        audio = next(iter(container.streams.audio), None)
        return MediaFacts(
            mime_type=mime_type,
            container=container.format.name,
            video=_video_facts(container, video) if video else None,
            audio=_audio_facts(audio) if audio else None,
            duration_seconds=find_duration(container, video or audio, container.size),
            bit_rate=container.bit_rate or None,
            tags=_tags(container.metadata),
        )


def moving_pictures(container: InputContainer) -> Iterable[VideoStream]:
    """The video streams that are no cover or thumbnail and whose codec is known."""
    from av.stream import Disposition

    still = Disposition.attached_pic | Disposition.timed_thumbnails
    for stream in container.streams.video:
        if not stream.disposition & still and stream.codec_context is not None and stream.width > 0:
            yield stream


def clockwise(frame: VideoFrame) -> int:
    """Degrees that a decoded frame must be turned clockwise to be upright, in quarter turns."""
    return round(-frame.rotation / 90) * 90 % 360


def is_mirrored(frame: VideoFrame) -> bool:
    """Must a decoded frame be turned upside down, before it is rotated? So do front cameras and editors mirror."""
    side_data = cast("Mapping[str, Any]", frame.side_data)
    if "DISPLAYMATRIX" not in side_data:
        return False
    a, b, _, c, d, *_ = struct.unpack("=9i", bytes(side_data["DISPLAYMATRIX"])[:36])
    return bool(a * d - b * c < 0)


def _video_facts(container: InputContainer, stream: VideoStream) -> VideoFacts:
    frame = _first_frame(container, stream)
    rotation = clockwise(frame) if frame else 0
    width, height = (frame.width, frame.height) if frame else (stream.width, stream.height)
    if rotation in (90, 270):
        width, height = height, width
    transfer = frame.color_trc if frame else stream.color_trc
    return VideoFacts(
        codec=stream.codec_context.codec.canonical_name,
        width=width,
        height=height,
        rotation=rotation,
        fps=_sane_rate(stream.average_rate or stream.guessed_rate),
        pixel_format=stream.pix_fmt,
        hdr=transfer in HDR_TRANSFERS,
        mirrored=is_mirrored(frame) if frame else False,
    )


def _first_frame(container: InputContainer, stream: VideoStream) -> VideoFrame | None:
    """The first frame that decodes, which knows how it is turned; None if there is none near the start."""
    import av

    if stream.width * stream.height > MOST_PIXELS:
        return None
    for count, packet in enumerate(container.demux(stream)):
        try:
            for frame in stream.decode(packet):
                return frame
        except av.FFmpegError:
            pass  # the next packet may be whole
        if count >= FIRST_FRAME_PACKETS:
            break
    return None


def _audio_facts(stream: AudioStream) -> AudioFacts:
    context = stream.codec_context
    known = context is not None
    return AudioFacts(
        codec=context.codec.canonical_name if known else "unknown",
        sample_rate=stream.sample_rate if known else 0,
        channels=stream.channels if known else 0,
        language=None if stream.language in (None, "und", "") else stream.language,
    )


def _sane_rate(rate: Fraction | None) -> float | None:
    return round(float(rate), 3) if rate and 0 < rate <= 1000 else None


def _tags(metadata: Mapping[str, str]) -> dict[str, str]:
    """The tags that say something about the content, cut and without control characters."""
    lower = {str(name).lower(): str(value) for name, value in metadata.items()}
    found = {name: lower[name.lower()] for name in TAG_NAMES if lower.get(name.lower())}
    return {
        name: "".join(letter if letter.isprintable() else " " for letter in value[:TAG_CHARACTERS]).strip()
        for name, value in found.items()
    }
