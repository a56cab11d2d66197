"""From several ranked lists to one: by reciprocal ranks, with everything of one video folded into one hit. Pure.

A list ranks rows: assets, scenes, frames, entries. What belongs together has one rank in each list, that of its best
row, so that a long video with many scenes does not push others away. A rank counts as weight / (60 + rank).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

WEIGHTS: Mapping[str, float] = {"words": 1.0, "meaning": 0.8, "look": 0.6, "like": 1.0, "newest": 1.0}
SMOOTH = 60
MOST_MOMENTS = 5

T = TypeVar("T")
Subject = tuple[str, str]  # ("asset", id) or (source, subject of the entry)


class Row(NamedTuple):
    """What a list ranks. `of` and `id` say which row; `subject` says what it belongs to."""

    subject: Subject
    of: str
    id: int

    @property
    def is_whole(self) -> bool:
        """Not a moment of something."""
        return self.of == "asset"


@dataclass(slots=True)
class Fused:
    """One thing with all its rows, the best first."""

    subject: Subject
    score: float = 0.0
    why: list[str] = field(default_factory=list)
    rows: list[tuple[Row, float, tuple[str, ...]]] = field(default_factory=list)


def fuse(lists: Mapping[str, Sequence[Row]]) -> list[Fused]:
    """Best first; of equals, the one that came first in the first list."""
    found: dict[Subject, Fused] = {}
    rows: dict[Row, tuple[float, list[str]]] = {}
    for way, ranked in lists.items():
        weight = WEIGHTS[way]
        for rank, subject in enumerate(_first_seen(row.subject for row in ranked), 1):
            fused = found.setdefault(subject, Fused(subject))
            fused.score += weight / (SMOOTH + rank)
            fused.why.append(way)
        for rank, row in enumerate(_first_seen(ranked), 1):
            score, why = rows.setdefault(row, (0.0, []))
            why.append(way)
            rows[row] = (score + weight / (SMOOTH + rank), why)
    for row, (score, why) in rows.items():
        found[row.subject].rows.append((row, score, tuple(why)))
    for fused in found.values():
        fused.rows.sort(key=lambda one: -one[1])
    return sorted(found.values(), key=lambda fused: -fused.score)


def best_moments(fused: Fused) -> list[tuple[Row, float, tuple[str, ...]]]:
    """Those of its rows that are a place in it, the best first."""
    return [one for one in fused.rows if not one[0].is_whole][:MOST_MOMENTS]


def _first_seen(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))
