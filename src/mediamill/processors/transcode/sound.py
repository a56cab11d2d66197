"""The sound's rendition: encoded once as AAC, in segments whose borders are the AAC frames nearest to the pictures'.

A later attempt goes on in the middle: it decodes from a little before the border and lets the encoder warm up on
frames that are thrown away, so that the frames fit together. Where timestamps do not tell exactly which sample is
which (`exact` in a segment's facts), it decodes all from the start instead, which costs little.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.codec.context import Flags

from mediamill.media.hls import Segment, init_name, segment_name
from mediamill.processors.transcode.fmp4 import Sample, write_audio_init, write_fragment
from mediamill.processors.transcode.quality import Quality, Store
from mediamill.processors.transcode.sound_source import CHANNELS, Block, SoundSource

FRAME = 1024  # samples of one AAC frame; the encoder is also late by one
BIT_RATE = 128_000
CODEC = "mp4a.40.2"
WARM_UP_FRAMES = 12


class SoundEncoder:
    """Makes the missing segments of the sound."""

    def __init__(
        self,
        quality: Quality,
        source: SoundSource,
        segment_seconds: Fraction,
        store: Store,
        on_segment: Callable[[], None],
    ) -> None:
        self.quality = quality
        self._source, self._store, self._on_segment = source, store, on_segment
        self._frames_per_segment = segment_seconds * source.rate / FRAME
        self._frames: list[Sample] = []

    def run(self, kept_init: Mapping[str, Any] | None, kept_exact: bool) -> None:
        """From the first missing segment to the end."""
        encoder = open_aac(self._source.rate)
        self._prepare(bytes(encoder.extradata or b""), kept_init)
        self.quality.state = "in_progress"
        first = self._first_frame_of(self.quality.first_missing)
        start = max(0, first - WARM_UP_FRAMES) if kept_exact else 0
        index = self.quality.first_missing
        last = first
        for number, data in _encode(encoder, self._source.blocks(start * FRAME), start):
            if number < first:
                continue
            if number >= self._first_frame_of(index + 1):
                self._write(index, number)
                index += 1
            self._frames.append(Sample(number * FRAME, data))
            last = number + 1
        self._write(index, last)
        self.quality.state = "completed"

    def _prepare(self, config: bytes, kept_init: Mapping[str, Any] | None) -> None:
        init = write_audio_init(config, self._source.rate, CHANNELS, BIT_RATE)
        self.quality.codecs = CODEC
        digest = hashlib.sha256(init).hexdigest()
        if kept_init is None or kept_init.get("digest") != digest:
            self.quality.segments.clear()
            facts = {"quality": self.quality.name, "codecs": CODEC, "sample_rate": self._source.rate}
            self._store(init_name(self.quality.name), init, {**facts, "channels": CHANNELS, "digest": digest})

    def _first_frame_of(self, index: int) -> int:
        """The AAC frame that is nearest to a border."""
        return round(index * self._frames_per_segment)

    def _write(self, index: int, end: int) -> None:
        frames, self._frames = self._frames, []
        if not frames or index in self.quality.segments:
            return
        data = write_fragment(index + 1, frames, end * FRAME, pictures=False)
        seconds = round(len(frames) * FRAME / self._source.rate, 6)
        name = segment_name(self.quality.name, index)
        facts = {"quality": self.quality.name, "index": index, "seconds": seconds}
        self._store(name, data, {**facts, "exact": self._source.is_exact})
        self.quality.segments[index] = Segment(name, seconds, len(data))
        self._on_segment()


def open_aac(rate: int) -> AudioCodecContext:
    """An encoder of AAC-LC."""
    context = av.CodecContext.create("aac", "w")
    context.sample_rate, context.layout, context.format = rate, "stereo", "fltp"
    context.bit_rate, context.time_base = BIT_RATE, Fraction(1, rate)
    context.flags |= Flags.global_header
    context.open()
    return context


def _encode(encoder: AudioCodecContext, blocks: Iterable[Block], start: int) -> Iterator[tuple[int, bytes]]:
    """Encoded frames with their numbers; the first is the encoder's run-up and belongs before `start`."""
    number = start - 1
    for count, samples in enumerate(_cut_into_frames(blocks)):
        frame = AudioFrame.from_ndarray(samples, "fltp", "stereo")
        frame.sample_rate, frame.time_base = encoder.sample_rate, Fraction(1, encoder.sample_rate)
        frame.pts = (start + count) * FRAME
        for packet in encoder.encode(frame):
            yield number, bytes(packet)
            number += 1
    for packet in encoder.encode(None):
        yield number, bytes(packet)
        number += 1


def _cut_into_frames(blocks: Iterable[Block]) -> Iterator[Block]:
    """Of equal length; the last one is filled up with silence."""
    waiting: list[Block] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += block.shape[1]
        if count >= FRAME:
            joined = np.concatenate(waiting, axis=1)
            for at in range(0, count - FRAME + 1, FRAME):
                yield np.ascontiguousarray(joined[:, at : at + FRAME])
            waiting, count = [joined[:, count - count % FRAME :]], count % FRAME
    if count:
        rest = np.concatenate(waiting, axis=1)
        yield np.pad(rest, ((0, 0), (0, FRAME - count)))
