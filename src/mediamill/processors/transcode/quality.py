"""One quality on its way: which segments it has, and the encoder of the one that is being made.

Every segment has an encoder of its own. So a segment is the same whether the ones before it were made by this attempt
or by another, qualities may be differently far, and there is nothing to carry over but the finished files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import av
from av.video.frame import PictureType, VideoFrame

from mediamill.media.hls import Segment, init_name, segment_name
from mediamill.processors.transcode.encoders import Setup, fullness_after, is_large
from mediamill.processors.transcode.fmp4 import (
    Sample,
    codec_of,
    lengths_for_start_codes,
    write_fragment,
    write_video_init,
)

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.codeccontext import VideoCodecContext

State = Literal["pending", "in_progress", "completed", "failed", "skipped"]
OpenEncoder = Callable[[Setup], "VideoCodecContext"]
Store = Callable[[str, bytes, Mapping[str, Any]], None]  # name, content, facts: gives a finished file away
ENCODER_TROUBLE = (av.FFmpegError, ValueError, RuntimeError)
ERROR_CHARACTERS = 500


@dataclass(slots=True)
class Quality:
    """What is known and told of one quality, or of the sound."""

    name: str
    width: int | None = None
    height: int | None = None
    codecs: str = ""
    frame_rate: float | None = None
    state: State = "pending"
    error: str | None = None
    segments: dict[int, Segment] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Is there anything left to do?"""
        return self.state in ("pending", "in_progress")

    def wants(self, segment: int) -> bool:
        """Must this segment be made?"""
        return self.is_open and segment not in self.segments

    @property
    def first_missing(self) -> int:
        """Where its work begins; also asked while another thread adds one."""
        return next(index for index in count() if index not in self.segments)

    @property
    def seconds(self) -> float:
        """How long it plays so far."""
        return sum(segment.seconds for segment in self.segments.values())

    def in_order(self) -> tuple[Segment, ...]:
        """Its segments, once they are complete."""
        return tuple(self.segments[index] for index in range(len(self.segments)))

    def fail(self, error: Exception) -> None:
        """Give this one up; the others go on."""
        self.state = "failed"
        self.error = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]


class QualityEncoder:
    """Makes the missing segments of one quality."""

    def __init__(self, quality: Quality, setup: Setup, open_encoder: OpenEncoder, store: Store) -> None:
        self.quality = quality
        self._setup, self._open_encoder, self._store = setup, open_encoder, store
        self._header = b""
        self._encoder: VideoCodecContext | None = None
        self._packets: list[Packet[Any]] = []
        self._index = 0

    @property
    def is_large(self) -> bool:
        """Does it take much memory?"""
        return is_large(self._setup.width, self._setup.height)

    def prepare(self, kept_init: Mapping[str, Any] | None) -> None:
        """Make the init. Segments that were made for another one (by another encoder) are made again."""
        try:
            self._header = bytes(self._open_encoder(self._setup).extradata or b"")
            setup = self._setup
            init = write_video_init(self._header, setup.width, setup.height, setup.timescale, setup.delay)
            self.quality.codecs = codec_of(self._header)
        except ENCODER_TROUBLE as error:
            self.quality.fail(error)
            return
        facts = {**self._facts(), "digest": hashlib.sha256(init).hexdigest()}
        if kept_init is None or kept_init.get("digest") != facts["digest"]:
            self.quality.segments.clear()
            self._store(init_name(self.quality.name), init, facts)

    def begin(self, index: int) -> None:
        """The pictures that follow are those of this segment."""
        self._index, self._packets = index, []
        self.quality.state = "in_progress"
        try:
            before = (self.quality.segments[one] for one in range(index) if one in self.quality.segments)
            full = fullness_after(self._setup, before)
            self._encoder = self._open_encoder(replace(self._setup, fullness=full))
            if bytes(self._encoder.extradata or b"") != self._header:
                raise ValueError("the encoder changed its header from one segment to the next")
        except ENCODER_TROUBLE as error:
            self._give_up(error)

    def feed(self, ticks: int, picture: VideoFrame) -> None:
        """One more picture."""
        if self._encoder is None:
            return
        picture.pts, picture.time_base = ticks, Fraction(1, self._setup.timescale)
        picture.pict_type = PictureType.NONE  # the source's choice is not ours
        try:
            self._packets += self._encoder.encode(picture)
        except ENCODER_TROUBLE as error:
            self._give_up(error)

    def finish(self, end: int, facts: Mapping[str, Any]) -> bool:
        """The segment ends here: write it and give it away. False: there is none."""
        encoder, self._encoder = self._encoder, None
        if encoder is None:
            return False
        try:
            self._packets += encoder.encode(None)
            start, data = self._fragment(end)
        except ENCODER_TROUBLE as error:
            self._give_up(error)
            return False
        name = segment_name(self.quality.name, self._index)
        seconds = round((end - start) / self._setup.timescale, 6)
        told = {"quality": self.quality.name, "index": self._index, "seconds": seconds, **facts}
        self._store(name, data, told)
        self.quality.segments[self._index] = Segment(name, seconds, len(data))
        return True

    def _fragment(self, end: int) -> tuple[int, bytes]:
        samples = [
            Sample(int(packet.pts or 0), lengths_for_start_codes(bytes(packet))) for packet in self._packets
        ]
        self._packets = []
        if not samples:
            raise ValueError("the encoder gave nothing")
        return samples[0].time, write_fragment(
            self._index + 1, samples, end, pictures=True, delay=self._setup.delay
        )

    def _give_up(self, error: Exception) -> None:
        self._encoder, self._packets = None, []
        self.quality.fail(error)

    def _facts(self) -> dict[str, Any]:
        quality = self.quality
        return {
            "quality": quality.name,
            "codecs": quality.codecs,
            "width": quality.width,
            "height": quality.height,
            "frame_rate": quality.frame_rate,
            "encoder": self._setup.encoder,
        }
