"""Pieces of text with their places on a page or an image, brought into the order in which a person reads them.

Pieces at the same height are a row. Where a white gutter parts rows of prose, what is left of it is read first:
columns. Short pieces side by side stay rows: a table. Heights and places grow downwards.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

MAX_CUTS = 8  # columns in columns
MAX_GUTTERS = 12  # that are tried, those between most pieces first
COLUMN_ROWS = 3
PARTED_ROWS = 2  # with text on both sides of a gutter: fewer may be chance, as in a chat
PROSE_CHARACTERS = 18  # on average, on both sides of a gutter


@dataclass(frozen=True, slots=True)
class Piece:
    """Words that stand together in one line."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 0.1)

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


Row = list[Piece]


def order_blocks(pieces: list[Piece], cuts: int = 0) -> list[list[Row]]:
    """Blocks in reading order, such as a headline, a column, the next column; each has its rows."""
    if not pieces:
        return []
    rows = _rows(pieces)
    cut = _find_columns(rows) if cuts < MAX_CUTS else None
    if cut is None:
        return [rows]
    gutter, first, last = cut
    block = [piece for row in rows[first:last] for piece in row]
    parts = (
        [piece for row in rows[:first] for piece in row],
        [piece for piece in block if piece.right <= gutter],
        [piece for piece in block if piece.right > gutter],
        [piece for row in rows[last:] for piece in row],
    )
    return [found for part in parts for found in order_blocks(part, cuts + 1)]


def _rows(pieces: list[Piece]) -> list[Row]:
    """Pieces whose middles are at the height of the first of a row belong to it."""
    rows: list[Row] = []
    for piece in sorted(pieces, key=lambda piece: piece.middle):
        if rows and piece.middle <= rows[-1][0].bottom - 0.25 * min(piece.height, rows[-1][0].height):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return [sorted(row, key=lambda piece: piece.left) for row in rows]


def _find_columns(rows: list[Row]) -> tuple[float, int, int] | None:
    """A gutter and the rows that it parts, as many as possible."""
    best: tuple[float, int, int] | None = None
    for gutter in _gutters(rows):
        first, last = _longest_run(rows, gutter)
        if _is_prose(rows[first:last], gutter) and (best is None or last - first > best[2] - best[1]):
            best = gutter, first, last
    return best


def _gutters(rows: list[Row]) -> list[float]:
    """Places that lie between two pieces in the most rows, one for each gutter."""
    gaps = [
        (one.right, other.left)
        for row in _beside(rows)
        for one, other in pairwise(row)
        if other.left - one.right > 0.5 * one.height
    ]
    starts, ends = sorted(start for start, _ in gaps), sorted(end for _, end in gaps)
    # Just left of where a line of the next column begins: left edges are nearly even, right ones may not be.
    places = {round(end) - 1 for end in ends}
    count = {place: bisect_right(starts, place) - bisect_right(ends, place) for place in places}
    apart = median(row[0].height for row in rows)
    gutters: list[float] = []
    for place in sorted(places, key=lambda place: (-count[place], place)):
        if len(gutters) == MAX_GUTTERS or count[place] < PARTED_ROWS:
            break
        if all(abs(place - gutter) > apart for gutter in gutters):
            gutters.append(place)
    return gutters


def _beside(rows: list[Row]) -> list[Row]:
    """Each row with what of the next one begins above its end: lines of two columns need not be at one height."""
    wider = []
    for row, after in pairwise([*rows, []]):
        end = max(piece.bottom for piece in row)
        more = [piece for piece in after if piece.top < end - 0.2 * piece.height]
        wider.append(sorted([*row, *more], key=lambda piece: piece.left))
    return wider


def _longest_run(rows: list[Row], gutter: float) -> tuple[int, int]:
    best, first = (0, 0), 0
    for index, row in enumerate([*rows, None]):
        if row is None or any(piece.left < gutter < piece.right for piece in row):
            if index - first > best[1] - best[0]:
                best = first, index
            first = index + 1
    return best


def _is_prose(rows: list[Row], gutter: float) -> bool:
    """Does the gutter part rows, and are there enough lines, long enough, on both sides of it?"""
    parted = sum(row[0].right <= gutter <= row[-1].left for row in _beside(rows))
    left = [len(piece.text) for row in rows for piece in row if piece.right <= gutter]
    right = [len(piece.text) for row in rows for piece in row if piece.right > gutter]
    return parted >= PARTED_ROWS and all(
        len(side) >= COLUMN_ROWS
        and sum(side) / len(side) >= PROSE_CHARACTERS
        and median(side) >= PROSE_CHARACTERS
        for side in (left, right)
    )
