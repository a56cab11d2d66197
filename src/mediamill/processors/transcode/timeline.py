"""Which segment a picture belongs to, and the pictures that must be repeated to keep the borders. Pure.

Pictures keep the times they have in the source: a constant rate would show phones' and screen recordings' pictures
at wrong moments, or twice. Borders lie at multiples of the segment's length, moved to the nearest picture. Where a
picture stands over a border for long, it is shown again at the border, so that segments are as long as they should be.
All this depends on the pictures around a border only, never on where decoding began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

Picture = TypeVar("Picture")

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
        for shown in pictures:
            if standing is not None:
                yield from self._repeats(standing, shown.ticks)
            yield Beat(self.segment_of(shown.ticks), shown.ticks, shown.picture)
            standing = shown
        if standing is not None:
            end = standing.ticks + max(1, standing.duration)
            yield from self._repeats(standing, end)
            yield Beat(self.segment_of(end), end, None)

    def _repeats(self, standing: Shown[Picture], until: int) -> Iterator[Beat[Picture]]:
        for passed in range(self.segment_of(standing.ticks) + 1, self.segment_of(until) + 1):
            if until - self.start_of(passed) > self.late:
                yield Beat(passed, self.start_of(passed), standing.picture)
