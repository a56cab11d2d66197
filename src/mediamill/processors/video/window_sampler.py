"""A few frames that stand for a whole video, found by its index and by seeking, without decoding it all.

The duration is cut into equal windows, one frame each. The index tells which keyframes lie in a window:

- none (or the file has no index): the frame at its centre;
- one: that one;
- several: all are decoded at 32 × 32; the one nearest to their mean in colour (least mean squared error) is typical.

A video of keyframes only has one every few hundredths of a second: of those within half a second, one counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from av.video.frame import VideoFrame

from mediamill.media.frames import Footage, Pixels

T = TypeVar("T")

LEAST_APART_SECONDS = 0.5  # no encoder that means to save space has keyframes closer
ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Sample:
    """The frame that stands for one window."""

    timestamp_ms: int
    is_keyframe: bool


def sample_windows(footage: Footage, duration_seconds: float, sampling_limit: int) -> list[Sample]:
    """One frame a window, in order; windows where nothing can be decoded, or nothing new, are left out."""
    found: dict[int, Sample] = {}
    for _, sample, _ in sample_frames(footage, duration_seconds, sampling_limit):
        found.setdefault(sample.timestamp_ms, sample)
    return sorted(found.values(), key=lambda sample: sample.timestamp_ms)


def sample_frames(
    footage: Footage, duration_seconds: float, sampling_limit: int, done: Container[int] = ()
) -> Iterator[tuple[int, Sample, VideoFrame | None]]:
    """Each window's number and sample, without windows that are done already; and its frame, if it is at hand."""
    marks = sorted(footage.keyframe_times())
    for number, (start, end) in enumerate(windows(duration_seconds, sampling_limit)):
        if number in done:
            continue
        inside = marks[bisect_left(marks, start) : bisect_left(marks, end)]
        found = sample_keyframes(footage, inside) or sample_centre(footage, (start + end) / 2)
        if found is not None:
            yield number, *found


def windows(duration_seconds: float, count: int) -> list[tuple[float, float]]:
    """The duration in equal parts."""
    width = max(0.0, duration_seconds) / max(1, count)
    return [(number * width, (number + 1) * width) for number in range(max(1, count))]


def sample_centre(footage: Footage, seconds: float) -> tuple[Sample, VideoFrame | None] | None:
    """The frame at a time."""
    found = footage.frame_at(seconds)
    return None if found is None else (Sample(round(found[0] * 1000), bool(found[1].key_frame)), found[1])


def sample_keyframes(footage: Footage, marks: Sequence[float]) -> tuple[Sample, VideoFrame | None] | None:
    """The most typical of some keyframes; only of a single one the frame is at hand: many would take much memory."""
    times: list[float] = []
    tinies: list[Pixels] = []
    only: VideoFrame | None = None
    for mark in thin_out(marks):
        if (found := footage.keyframe_at(mark)) is not None:
            only = None if times else found[1]
            times.append(found[0])
            tinies.append(footage.tiny_of(found[1]))
    if not times:
        return None
    return Sample(round(times[most_typical(tinies)] * 1000), is_keyframe=True), only


def thin_out(marks: Sequence[float]) -> list[float]:
    """Without those that follow another one at once."""
    kept: list[float] = []
    for mark in marks:
        if not kept or mark - kept[-1] >= LEAST_APART_SECONDS - ROUNDING:
            kept.append(mark)
    return kept


def most_typical(tinies: Sequence[Pixels]) -> int:
    """The number of the picture nearest to the mean of all; the first of equals."""
    stack = np.stack(tinies).astype(np.float32)
    errors = ((stack - stack.mean(axis=0)) ** 2).mean(axis=(1, 2, 3))
    return int(errors.argmin())


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most so many of them, evenly apart."""
    if len(items) <= count:
        return list(items)
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]
