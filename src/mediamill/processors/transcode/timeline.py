"""Which segment a picture belongs to, and the pictures that must be repeated to keep the borders. Pure.

Pictures keep the times they have in the source: a constant rate would show phones' and screen recordings' pictures
at wrong moments, or twice. Only where there are more than players are made for, every second or third is left out.
Borders lie at multiples of the segment's length, moved to the nearest picture. Where a
picture stands over a border for long, it is shown again at the border, so that segments are as long as they should be.
All this depends on the pictures around a border only, never on where decoding began.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Generic, TypeVar

Picture = TypeVar("Picture")

MOST_RATE = 60.5  # pictures a second: Apple's rule, with room for clocks that are not exact
MOST_EARLY_SECONDS = Fraction(1, 10)  # a border is moved back by half a picture, but not more
MOST_LATE_SECONDS = Fraction(1, 4)  # and forward by one and a half


@dataclass(frozen=True, slots=True)
class Shown(Generic[Picture]):
    """A picture as the source shows it."""

    ticks: int
    duration: int  # as far as it is known
    picture: Picture


@dataclass(frozen=True, slots=True)
class Beat(Generic[Picture]):
    """A picture, when it is shown, and in which segment. Without a picture: the end."""

    segment: int
    ticks: int
    picture: Picture | None


def one_of(rate: float) -> int:
    """Of how many pictures one is shown, at a source's rate."""
    return max(1, math.ceil(rate / MOST_RATE))


@dataclass(frozen=True, slots=True)
class Borders:
    """Where segments begin, in ticks."""

    timescale: int
    segment_seconds: Fraction
    frame_seconds: Fraction  # usual time of one picture

    @property
    def early(self) -> int:
        """A picture this much before a border is taken as the border's."""
        return int(min(self.frame_seconds / 2, MOST_EARLY_SECONDS) * self.timescale)

    @property
    def late(self) -> int:
        """A picture may come this much after the border, and begin the segment still."""
        return int(min(self.frame_seconds * 3 / 2, MOST_LATE_SECONDS) * self.timescale)

    def start_of(self, segment: int) -> int:
        """The nominal border."""
        return round(segment * self.segment_seconds * self.timescale)

    def segment_of(self, ticks: int) -> int:
        """The segment of a picture at that time."""
        return max(0, int((ticks + self.early) / (self.segment_seconds * self.timescale)))

    def arrange(self, pictures: Iterable[Shown[Picture]]) -> Iterator[Beat[Picture]]:
        """Pictures with rising times, with repeats where a border would have none, and the end."""
        standing: Shown[Picture] | None = None
        for shown in self._thinned(pictures):
            if standing is not None:
                yield from self._repeats(standing, shown.ticks)
            yield Beat(self.segment_of(shown.ticks), shown.ticks, shown.picture)
            standing = shown
        if standing is not None:
            end = standing.ticks + max(1, standing.duration)
            yield from self._repeats(standing, end)
            yield Beat(self.segment_of(end), end, None)

    def _thinned(self, pictures: Iterable[Shown[Picture]]) -> Iterator[Shown[Picture]]:
        """The first picture of every slot of time and of every segment; the last one stands for those left out."""
        slot = self.frame_seconds * self.timescale * one_of(float(1 / self.frame_seconds))
        if slot == self.frame_seconds * self.timescale:
            yield from pictures
            return
        waiting: Shown[Picture] | None = None
        last: tuple[int, int] | None = None
        for shown in pictures:
            place = int((shown.ticks + self.early) / slot), self.segment_of(shown.ticks)
            if waiting is not None and place == last:
                waiting = replace(waiting, duration=shown.ticks + shown.duration - waiting.ticks)
                continue
            if waiting is not None:
                yield waiting
            waiting, last = shown, place
        if waiting is not None:
            yield waiting

    def _repeats(self, standing: Shown[Picture], until: int) -> Iterator[Beat[Picture]]:
        for passed in range(self.segment_of(standing.ticks) + 1, self.segment_of(until) + 1):
            if until - self.start_of(passed) > self.late:
                yield Beat(passed, self.start_of(passed), standing.picture)
