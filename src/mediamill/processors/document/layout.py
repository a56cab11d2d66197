"""Pieces of text with their places on a page, brought into the order in which a person reads them.

Pieces at the same height are a row. Where a white gutter parts rows of prose, what is left of it is read first:
columns. Short pieces side by side stay rows: a table. Heights and places grow downwards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

MAX_CUTS = 8  # columns in columns
MAX_GUTTERS = 12  # that are tried, the most frequent first
COLUMN_ROWS = 3
PROSE_CHARACTERS = 18  # on average, on both sides of a gutter
TABLE_GAP = "   "


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


Row = list[Piece]


def arrange(pieces: list[Piece]) -> str:
    """The text of a page."""
    return "\n".join(_lines(pieces, 0)).strip("\n")


def _lines(pieces: list[Piece], cuts: int) -> list[str]:
    rows = _rows(pieces)
    cut = _find_columns(rows) if cuts < MAX_CUTS else None
    if cut is None:
        return _write(rows)
    gutter, first, last = cut
    block = [piece for row in rows[first:last] for piece in row]
    lines: list[str] = []
    for part in (
        [piece for row in rows[:first] for piece in row],
        [piece for piece in block if piece.right <= gutter],
        [piece for piece in block if piece.right > gutter],
        [piece for row in rows[last:] for piece in row],
    ):
        if part:
            lines += [*([""] if lines else []), *_lines(part, cuts + 1)]
    return lines


def _rows(pieces: list[Piece]) -> list[Row]:
    """Pieces whose middles are at the height of the first of a row belong to it."""
    rows: list[Row] = []
    for piece in sorted(pieces, key=lambda piece: (piece.top + piece.bottom) / 2):
        middle = (piece.top + piece.bottom) / 2
        if rows and middle <= rows[-1][0].bottom - 0.25 * min(piece.height, rows[-1][0].height):
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
    places: Counter[float] = Counter()
    for row in rows:
        for one, other in pairwise(row):
            if other.left - one.right > 0.5 * one.height:
                # Just left of where the next column begins: left edges are even, right ones may not be.
                places[round(other.left) - 1] += 1
    return [place for place, count in places.most_common(MAX_GUTTERS) if count >= COLUMN_ROWS - 1]


def _longest_run(rows: list[Row], gutter: float) -> tuple[int, int]:
    best, first = (0, 0), 0
    for index, row in enumerate([*rows, None]):
        if row is None or any(piece.left < gutter < piece.right for piece in row):
            if index - first > best[1] - best[0]:
                best = first, index
            first = index + 1
    return best


def _is_prose(rows: list[Row], gutter: float) -> bool:
    left = [len(piece.text) for row in rows for piece in row if piece.right <= gutter]
    right = [len(piece.text) for row in rows for piece in row if piece.right > gutter]
    return all(
        len(side) >= COLUMN_ROWS
        and sum(side) / len(side) >= PROSE_CHARACTERS
        and median(side) >= PROSE_CHARACTERS
        for side in (left, right)
    )


def _write(rows: list[Row]) -> list[str]:
    steps = [_middle(after) - _middle(before) for before, after in pairwise(rows)]
    usual = median(steps) if steps else 0.0
    lines: list[str] = []
    for index, row in enumerate(rows):
        if index and steps[index - 1] > 1.6 * max(usual, row[0].height):
            lines.append("")  # a new paragraph
        lines.append(_join(row))
    return lines


def _middle(row: Row) -> float:
    return (row[0].top + row[0].bottom) / 2


def _join(row: Row) -> str:
    text = row[0].text
    for before, piece in pairwise(row):
        gap = piece.left - before.right
        text += (TABLE_GAP if gap > 0.8 * piece.height else " ") + piece.text
    return text.rstrip()
