"""Paragraphs and tables, one after the other, as lines of text: the order in which a person reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mediamill.processors.document.document_text import DocumentText, Limits, TextRoom

MAX_GAP = 16  # empty cells that are written as such; a wider gap names the column
MAX_COPIES = 100


@dataclass(slots=True)
class _Table:
    cells: list[tuple[int, str]] = field(default_factory=list)  # of the open row: column, text
    column: int = 0
    cell: list[str] = field(default_factory=list)
    rows: int = 0


class Flow:
    """Collects the lines of one part. Tables may hold tables; the inner ones become lines of a cell."""

    def __init__(self, room: TextRoom, limits: Limits, document: DocumentText) -> None:
        self._room, self._limits, self._document = room, limits, document
        self._lines: list[str] = []
        self._tables: list[_Table] = []
        self._cells_left = limits.cells

    @property
    def text(self) -> str:
        """All lines so far."""
        return "\n".join(self._lines).strip("\n")

    @property
    def in_table(self) -> bool:
        """Is a table open?"""
        return bool(self._tables)

    def line(self, text: str) -> None:
        """One line or paragraph; inside a table it belongs to the open cell."""
        text = text.strip("\n")
        if self._tables:
            if text.strip():
                self._tables[-1].cell.append(" ".join(text.split()))
        else:
            self._lines.append(self._room.take(text.rstrip()))

    def gap(self) -> None:
        """One empty line, outside of tables."""
        if not self._tables and self._lines and self._lines[-1]:
            self._lines.append("")

    def open_table(self) -> None:
        """Rows follow."""
        self.gap()
        self._tables.append(_Table())

    def close_table(self) -> None:
        """No more rows."""
        if self._tables:
            self.close_row()
            self._tables.pop()
            self.gap()

    def open_row(self) -> None:
        """Cells follow."""
        if self._tables:
            self._tables[-1].cells, self._tables[-1].column = [], 0

    def close_cell(self, repeat: int = 1) -> None:
        """The lines since the last cell are this one, `repeat` times side by side."""
        if not self._tables:
            return
        table = self._tables[-1]
        text, table.cell = "; ".join(table.cell), []
        copies = min(max(repeat, 1), MAX_COPIES, self._cells_left) if text else 0
        table.cells += [(table.column + step, text) for step in range(copies)]
        table.column += max(repeat, 1)
        self._cells_left -= copies or 1
        if self._cells_left <= 0:
            self._document.warn(f"only the first {self._limits.cells:,} cells were read")

    def close_row(self, repeat: int = 1) -> None:
        """The cells since the last row are this one, `repeat` times."""
        if not self._tables:
            return
        table = self._tables[-1]
        if table.cell:
            self.close_cell()
        text, table.cells = join_cells(table.cells), []
        if not text or not self._admit(table):
            return
        self._tables.pop()  # the row is a line of whatever is around the table
        copies = min(max(repeat, 1), MAX_COPIES)
        for _ in range(copies):
            self.line(text)
        if repeat > copies:
            self.line(f"[the same row {repeat - copies:,} more times]")
        self._tables.append(table)

    def _admit(self, table: _Table) -> bool:
        table.rows += 1
        if table.rows > self._limits.rows:
            self._document.warn(f"only the first {self._limits.rows:,} rows of a table were read")
            return False
        return self._cells_left > 0


def join_cells(cells: list[tuple[int, str]]) -> str:
    """A row as `a | b`, with empty cells in between; a cell far to the right is named instead of padded."""
    told: list[str] = []
    last = -1
    for column, text in cells:
        if not text:
            continue
        empty = column - last - 1
        if empty <= MAX_GAP:
            told += [""] * empty + [text]
        else:
            told.append(f"[{column_name(column)}] {text}")
        last = column
    return " | ".join(told)


def column_name(column: int) -> str:
    """`A` for 0, `XFD` for 16383."""
    name = ""
    column += 1
    while column > 0 and len(name) < 8:
        column, letter = divmod(column - 1, 26)
        name = chr(ord("A") + letter) + name
    return name
