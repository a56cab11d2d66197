"""The sound of a source as stereo samples without gaps, counted from the pictures' clock at 0.

A late track gets silence, an early one is cut; a gap between timestamps becomes silence, an overlap is cut, too.
Errors of one packet cost that packet.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.filter import Graph
from av.stream import Discard
from numpy.typing import NDArray

from mediamill.media.errors import DamagedMediaError
from mediamill.media.open_media import open_media, reason_of
from mediamill.processors.transcode.decode import BAD_BYTES, SEEKABLE, Trouble

Block = NDArray[np.float32]  # channels × samples

CHANNELS = 2
USUAL_RATES = (44_100, 48_000)  # others become the last of these
SOURCE_RATES = range(1_000, 768_001)
SEEK_BACK_SECONDS = 1
JITTER_SECONDS = Fraction(1, 25)  # timestamps that are less wrong than this are right
LONGEST_GAP_SECONDS = 3600  # more is a lie
LONGEST_OVERLAP_SECONDS = 1  # more is another recording behind this one, whose clock begins again
MIX_LIMIT = "1.414"  # of what a channel is the sum of, in a mix-down: 1 makes films faint, much more clips
MOST_BAD_PACKETS = 20_000  # in a row; then it is not sound at all


class SoundSource:
    """A file that is open for listening, once.

    `is_exact`: so far each timestamp told exactly which sample is which, so that reading could begin anywhere.
    """

    def __init__(self, path: Path, mime_type: str, origin: Fraction) -> None:
        self.trouble, self.is_exact = Trouble(), True
        self._container = open_media(path, mime_type)
        try:
            self._stream = self._choose_stream()
        except BaseException:
            self._container.close()
            raise
        told = self._stream.codec_context.sample_rate
        self.rate = told if told in USUAL_RATES else USUAL_RATES[-1]
        self._origin = origin
        self._graph: Graph | None = None
        self._shape: tuple[object, ...] = ()
        self._due: int | None = None  # the place of the next sample that goes in, as output counts
        self._cut = 0  # samples that are not wanted any more

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def blocks(self, start: int) -> Iterator[Block]:
        """Everything from sample `start` on. Can be read once."""
        for frame in self._frames_from(start):
            try:
                silence = self._place(frame, start)
                blocks = self._convert(frame)
            except BAD_BYTES:  # a layout that nobody can mix, or a frame that contradicts itself
                self.trouble.bad_packets += 1
                continue
            for at in range(0, silence, self.rate):
                yield np.zeros((CHANNELS, min(self.rate, silence - at)), np.float32)
            yield from self._without_cut(blocks)
        yield from self._without_cut(self._flush())
        if self._due is None and start == 0:
            raise DamagedMediaError("the sound is damaged: nothing of it can be decoded")

    def _place(self, frame: AudioFrame, start: int) -> int:
        """Put the frame where its timestamp says: the silence that is missing before it, or what must be cut."""
        due = start if self._due is None else self._due
        told = self._place_of(frame)
        gap = 0 if told is None else told - due
        is_first = self._due is None  # there each sample counts; later only what can be noticed
        if told is None or frame.sample_rate != self.rate:
            self.is_exact = False
        if not is_first and abs(gap) <= JITTER_SECONDS * self.rate:
            self.is_exact = self.is_exact and gap == 0
            gap = 0
        least = -LONGEST_GAP_SECONDS if is_first else -LONGEST_OVERLAP_SECONDS
        if not least * self.rate <= gap <= LONGEST_GAP_SECONDS * self.rate:
            self._origin += Fraction(gap, self.rate)
            gap, self.is_exact = 0, False
        self._cut += max(0, -gap)
        self._due = due + gap + round(Fraction(frame.samples * self.rate, frame.sample_rate))
        return max(0, gap)

    def _place_of(self, frame: AudioFrame) -> int | None:
        if frame.pts is None or frame.time_base is None:
            return None
        return round((frame.pts * frame.time_base - self._origin) * self.rate)

    def _without_cut(self, blocks: list[Block]) -> Iterator[Block]:
        for block in blocks:
            cut = min(self._cut, block.shape[1])
            self._cut -= cut
            if cut < block.shape[1]:
                yield block[:, cut:]

    def _frames_from(self, start: int) -> Iterator[AudioFrame]:
        if start and self._seek(start):
            frames = self._frames()
            first = next(frames, None)
            place = None if first is None else self._place_of(first)
            if first is not None and place is not None and place <= start:
                yield first
                yield from frames
                return
            self._container.seek(0)
        yield from self._frames()

    def _seek(self, start: int) -> bool:
        if not self._container.format.name.startswith(SEEKABLE):
            return False
        seconds = Fraction(start, self.rate) + self._origin - SEEK_BACK_SECONDS
        try:
            self._container.seek(int(seconds / (self._stream.time_base or 1)), stream=self._stream)
        except (*BAD_BYTES, OverflowError):
            return False
        return seconds > self._origin

    def _frames(self) -> Iterator[AudioFrame]:
        bad_in_a_row = 0
        packets = self._container.demux(self._stream)
        while bad_in_a_row < MOST_BAD_PACKETS:
            try:
                packet = next(packets, None)
            except BAD_BYTES as error:
                self.trouble.torn = reason_of(error)
                return
            if packet is None:
                return
            try:
                frames = self._stream.decode(packet)
                bad_in_a_row = 0
            except BAD_BYTES:
                frames = []
                self.trouble.bad_packets += 1
                bad_in_a_row += 1
            yield from (frame for frame in frames if frame.samples > 0 and frame.sample_rate in SOURCE_RATES)

    def _convert(self, frame: AudioFrame) -> list[Block]:
        shape = (frame.format.name, frame.layout.name, frame.sample_rate)
        blocks: list[Block] = []
        if shape != self._shape or self._graph is None:
            blocks = self._flush()
            self._graph, self._shape = self._build(frame), shape
        frame.pts = None  # its place is known
        self._graph.push(frame)
        return blocks + self._pull(self._graph)

    def _flush(self) -> list[Block]:
        """What the resampler holds."""
        graph, self._graph = self._graph, None
        if graph is None:
            return []
        graph.push(None)
        return self._pull(graph)

    def _pull(self, graph: Graph) -> list[Block]:
        blocks: list[Block] = []
        while True:
            try:
                made = graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return blocks
            block = np.nan_to_num(made.to_ndarray().astype(np.float32, copy=False))
            blocks.append(np.clip(block, -1.0, 1.0))

    def _build(self, frame: AudioFrame) -> Graph:
        graph = Graph()
        source = graph.add_abuffer(
            sample_rate=frame.sample_rate,
            format=frame.format,
            layout=frame.layout,
            time_base=Fraction(1, frame.sample_rate),
        )
        resample = graph.add("aresample", sample_rate=str(self.rate), rematrix_maxval=MIX_LIMIT)
        stereo = graph.add(
            "aformat", sample_fmts="fltp", channel_layouts="stereo", sample_rates=str(self.rate)
        )
        graph.link_nodes(source, resample, stereo, graph.add("abuffersink")).configure()
        return graph

    def _choose_stream(self) -> AudioStream:
        streams = self._container.streams
        stream = streams.best("audio") or next(iter(streams.audio), None)
        if not isinstance(stream, AudioStream) or stream.codec_context is None:
            raise DamagedMediaError("the sound is in a format that nobody here can decode")
        for other in streams:
            if other is not stream:
                other.discard = Discard.all  # of an MP4, pictures are not even read
        return stream
