"""One walk over the source's pictures that makes all missing segments of all qualities."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from av.video.frame import VideoFrame

from mediamill.media.errors import MediaTooLargeError
from mediamill.media.hls import MOST_SEGMENTS
from mediamill.processors.transcode.beside import Beside
from mediamill.processors.transcode.chain import Chain
from mediamill.processors.transcode.decode import PictureSource
from mediamill.processors.transcode.deinterlace import deinterlace
from mediamill.processors.transcode.quality import QualityEncoder
from mediamill.processors.transcode.timeline import Borders, Shown

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as malloc.h of the GNU C library has them
MOST_HELD_BYTES = 1 << 30


class Walk:
    """Goes through the pictures once. `end_ticks`: where they end."""

    def __init__(
        self,
        source: PictureSource,
        borders: Borders,
        chain: Chain,
        encoders: Sequence[QualityEncoder],
        on_segment: Callable[[], None],
    ) -> None:
        self._source, self._borders, self._chain = source, borders, chain
        self._making, self._on_segment, self._telling = encoders, on_segment, threading.Lock()
        self._encoders: list[Beside] = []
        self._at: int | None = None  # the segment at hand
        self._wanted: list[bool] = []
        self.end_ticks = 0

    def run(self, *, interlaced: bool, can_seek: bool) -> None:
        """From the first segment that any quality misses to the end of the source."""
        self._encoders = [Beside(one, self._tell_segment) for one in self._making]
        if not any(one.is_large for one in self._encoders):
            hold_on_to_memory()
        try:
            self._run(interlaced=interlaced, can_seek=can_seek)
        finally:
            for encoder in self._encoders:
                encoder.close()

    def _tell_segment(self) -> None:
        with self._telling:
            self._on_segment()

    def _run(self, *, interlaced: bool, can_seek: bool) -> None:
        first = self._first_missing()
        if first is None:
            return
        start = max(0, self._borders.start_of(first) - self._borders.early) if can_seek else 0
        pictures: Iterable[Shown[VideoFrame]] = self._source.pictures(start)
        for beat in self._borders.arrange(deinterlace(pictures) if interlaced else pictures):
            if beat.segment != self._at or beat.picture is None:
                self._finish(beat.ticks)
                if self._first_missing() is None:  # all have failed
                    return
                if beat.picture is not None:
                    self._begin(beat.segment)
            if beat.picture is not None:
                for number, picture in self._chain.pictures(beat.picture, self._wanted):
                    self._encoders[number].feed(beat.ticks, picture)
            self.end_ticks = beat.ticks
        for encoder in self._encoders:
            encoder.wait()
        self._complete()

    def _first_missing(self) -> int | None:
        return min((one.quality.first_missing for one in self._encoders if one.quality.is_open), default=None)

    def _begin(self, segment: int) -> None:
        if segment >= MOST_SEGMENTS:
            raise MediaTooLargeError(f"the video has more than {MOST_SEGMENTS} segments")
        self._at = segment
        self._wanted = [one.quality.wants(segment) for one in self._encoders]
        if not any(self._wanted):
            self._tell_segment()  # on the way to the first missing segment: this is progress, too
        for encoder, is_wanted in zip(self._encoders, self._wanted, strict=True):
            if is_wanted:
                encoder.begin(segment)

    def _finish(self, end: int) -> None:
        facts = self._facts()
        for encoder, is_wanted in zip(self._encoders, self._wanted, strict=False):
            if is_wanted:
                encoder.finish(end, facts)
        if any(self._wanted) and self._encoders[0].is_large:
            give_back_memory()
        self._wanted = []

    def _facts(self) -> Mapping[str, Any]:
        return {} if self._source.is_regular else {"exact": False}

    def _complete(self) -> None:
        """The source has ended: a quality with all segments up to there is done."""
        count = max((self._at or 0) + 1, *(len(one.quality.segments) for one in self._encoders))
        for encoder in self._encoders:
            quality = encoder.quality
            if not quality.is_open:
                continue
            if quality.first_missing >= count:
                quality.state = "completed"
            else:
                quality.fail(ValueError(f"segment {quality.first_missing} of {count} is missing"))


def hold_on_to_memory() -> None:
    """Every segment has encoders of its own: what one has freed is for the next, without going through the kernel."""
    with contextlib.suppress(AttributeError, OSError):
        for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
            ctypes.CDLL(None).mallopt(option, MOST_HELD_BYTES)


def give_back_memory() -> None:
    """What the encoders of a segment held is in pieces by now, and the next ones would not fit into them."""
    with contextlib.suppress(AttributeError, OSError):  # only the C library of GNU has it
        ctypes.CDLL(None).malloc_trim(0)
