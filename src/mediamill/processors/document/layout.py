"""Pieces of text on a page, written as lines: paragraphs, columns and the cells of a table set apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from mediamill.processors.reading_order import Piece, Row, order_blocks

TABLE_GAP = "   "


@dataclass(frozen=True, slots=True)
class PageLayout:
    """Where the words of a page are, on a page as it is drawn that is so wide and high."""

    pieces: tuple[Piece, ...]
    width: float
    height: float
    scanned: bool = False  # the words were read by OCR


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, and where its words are if that was asked for."""

    text: str
    layout: PageLayout | None = None


def arrange(pieces: list[Piece]) -> str:
    """The text of a page."""
    return "\n\n".join("\n".join(_write(rows)) for rows in order_blocks(pieces)).strip("\n")


def _write(rows: list[Row]) -> list[str]:
    steps = [after[0].middle - before[0].middle for before, after in pairwise(rows)]
    usual = median(steps) if steps else 0.0
    lines: list[str] = []
    for index, row in enumerate(rows):
        if index and steps[index - 1] > 1.6 * max(usual, row[0].height):
            lines.append("")  # a new paragraph
        lines.append(_join(row))
    return lines


def _join(row: Row) -> str:
    text = row[0].text
    for before, piece in pairwise(row):
        gap = piece.left - before.right
        text += (TABLE_GAP if gap > 0.8 * piece.height else " ") + piece.text
    return text.rstrip()
