"""A page, sheet or slide as rows of cells, and where they are on its picture if it has one."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field

from mediamill.processors.document.layout import PageLayout
from mediamill.processors.reading_order import Piece, order_blocks

Box = tuple[float, float, float, float]  # left, top, right, bottom as shares of the page
CELL_ENDS = re.compile(r" \| | {3,}|\t+")
MOST_ROWS = 20_000  # of a page that are looked at
MOST_CELLS = 200  # of a row
CELL_CHARACTERS = 2_000
NARROW, WIDE = frozenset("iljtfrI.,:;'|!()[] -"), frozenset("mwMWGOQ@%")


@dataclass(frozen=True, slots=True)
class Cell:
    """Words that stand together."""

    text: str
    box: Box | None = None

    def part(self, start: int, end: int) -> Box | None:
        """Where some of the characters are, by how wide such letters usually are."""
        if self.box is None or not self.text:
            return None
        left, top, right, bottom = self.box
        widths = [0.5 if char in NARROW else 1.5 if char in WIDE else 1.0 for char in self.text]
        step = (right - left) / sum(widths)
        return left + sum(widths[:start]) * step, top, left + sum(widths[:end]) * step, bottom


Row = tuple[Cell, ...]


@dataclass(slots=True)
class SourcePage:
    """`width` and `height`: of its picture once it is drawn; before that, how it is shaped."""

    number: int
    label: str
    text: str
    rows: list[Row] = field(default_factory=list)
    width: int | None = None
    height: int | None = None
    scanned: bool = False
    image: str | None = None


def page_of_layout(number: int, label: str, text: str, layout: PageLayout) -> SourcePage:
    """A page whose words have places."""
    blocks = order_blocks(list(layout.pieces))
    rows = [tuple(_cell(piece, layout) for piece in row[:MOST_CELLS]) for rows in blocks for row in rows]
    width, height = round(layout.width), round(layout.height)
    return SourcePage(number, label, text, rows[:MOST_ROWS], width, height, layout.scanned)


def page_of_text(number: int, label: str, text: str, format_name: str = "") -> SourcePage:
    """A page of which only the text is known: the cells of a table are set apart in it."""
    delimiter = _delimiter(text) if format_name in ("csv", "txt") else ""
    return SourcePage(number, label, text, _split_csv(text, delimiter) if delimiter else _split_lines(text))


def _cell(piece: Piece, layout: PageLayout) -> Cell:
    across, down = max(layout.width, 1.0), max(layout.height, 1.0)
    edges = (piece.left / across, piece.top / down, piece.right / across, piece.bottom / down)
    left, top, right, bottom = (min(max(edge, 0.0), 1.0) for edge in edges)
    return Cell(" ".join(piece.text[:CELL_CHARACTERS].split()), (left, top, right, bottom))


def _split_lines(text: str) -> list[Row]:
    rows: list[Row] = []
    for line in text.splitlines():
        if line.strip() and len(rows) < MOST_ROWS:
            cells = CELL_ENDS.split(line)[:MOST_CELLS]
            rows.append(tuple(Cell(" ".join(cell[:CELL_CHARACTERS].split())) for cell in cells))
    return rows


def _delimiter(text: str) -> str:
    """What parts the cells of a table: as often in every line."""
    head = [line for line in text[:5_000].splitlines()[:20] if line.strip()]
    for char in "\t;|,":
        counts = {line.count(char) for line in head[:-1] or head}
        if len(head) > 1 and len(counts) == 1 and counts != {0} and ", " not in head[0]:
            return char
    return ""


def _split_csv(text: str, delimiter: str) -> list[Row]:
    rows: list[Row] = []
    try:
        for cells in csv.reader(text.splitlines()[:MOST_ROWS], delimiter=delimiter):
            rows.append(tuple(Cell(" ".join(cell[:CELL_CHARACTERS].split())) for cell in cells[:MOST_CELLS]))
    except csv.Error:  # a cell of more than 128 kB
        return _split_lines(text)
    return [row for row in rows if any(cell.text for cell in row)]
