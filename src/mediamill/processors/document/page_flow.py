"""The text of a web page while it grows: white space as a browser treats it, lists, and tables in tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mediamill.processors.document.document_text import TextRoom

SPACE = re.compile(r"[ \t\n\r\f]+")
MAX_TABLES = 30  # deeper ones are read as if they were no tables
MAX_LISTS = 30
BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")


@dataclass(slots=True)
class _Stretch:
    """Text of the page or of one cell."""

    pieces: list[str] = field(default_factory=list)
    wanted: str = ""  # white space that is written when text follows
    has_text: bool = False
    marked: bool = False  # a bullet or `#` was last: it belongs to the text after it


@dataclass(slots=True)
class _Table:
    cells: list[str] = field(default_factory=list)
    cell: _Stretch | None = None


class PageFlow:
    """Takes text and marks in the order of the page."""

    def __init__(self, room: TextRoom) -> None:
        self._room = room
        self._page = _Stretch()
        self._tables: list[_Table] = []
        self._extra_tables = 0
        self._lists: list[int] = []  # the last number of each open list, -1 for bullets
        self._extra_lists = 0
        self._pre = False

    def finish(self) -> str:
        """All of it."""
        while self._tables:
            self._close_table()
        return BLANK_LINES.sub("\n\n", "".join(self._page.pieces)).strip()

    def ends_with(self, text: str) -> bool:
        """Is this what was said last?"""
        return "".join(piece[-len(text) :] for piece in self._here().pieces[-3:]).endswith(text)

    def text(self, text: str) -> None:
        """Text inside whatever is open."""
        if self._pre:
            self._write(text)
            return
        words = SPACE.sub(" ", text)
        if words.startswith(" "):
            here = self._here()
            here.wanted = here.wanted or " "
        if stripped := words.strip(" "):
            self._write(stripped)
            if words.endswith(" "):
                self._here().wanted = " "

    def _write(self, text: str, mark: bool = False) -> None:
        here = self._here()
        if here.has_text and not here.marked:
            here.pieces.append(here.wanted)
        here.wanted, here.has_text, here.marked = "", True, mark
        here.pieces.append(self._room.take(text))

    def line_break(self) -> None:
        """The next text is on a new line."""
        here = self._here()
        here.wanted = (here.wanted.rstrip(" ") + "\n")[:2]

    def block(self, mark: str = "", *, apart: bool = False) -> None:
        """The next text is on its own line, or after an empty one."""
        here = self._here()
        want = "\n\n" if apart and not self._lists else "\n"
        here.wanted = want if len(want) > here.wanted.count("\n") else here.wanted.strip(" ")
        if mark:
            self._write(mark, mark=True)

    def open_list(self, *, counted: bool) -> None:
        """Items follow."""
        self.block(apart=not self._lists)
        if len(self._lists) < MAX_LISTS:
            self._lists.append(0 if counted else -1)
        else:
            self._extra_lists += 1

    def close_list(self) -> None:
        """No more items."""
        if self._extra_lists:
            self._extra_lists -= 1
        elif self._lists:
            self._lists.pop()
            self.block(apart=not self._lists)

    def list_item(self) -> None:
        """The next text is an item."""
        self.block()
        mark = "-"
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            mark = f"{self._lists[-1]}."
        self._here().marked = False
        self._write(f"{'  ' * max(len(self._lists) - 1, 0)}{mark} ", mark=True)

    def open_pre(self) -> None:
        """Text follows whose white space counts."""
        self.block(apart=True)
        self._pre = True

    def close_pre(self) -> None:
        """White space no longer counts."""
        self._pre = False
        self.block(apart=True)

    def open_table_part(self, name: str) -> None:
        """`table`, `tr`, `td` or `th` opens; pages often forget to close the one before."""
        if name == "table":
            self.block()
            if len(self._tables) < MAX_TABLES:
                self._tables.append(_Table())
            else:
                self._extra_tables += 1
        elif self._extra_tables or not self._tables:
            self.block()
        elif name == "tr":
            self._close_row()
        else:
            self._close_cell()
            self._tables[-1].cell = _Stretch()

    def close_table_part(self, name: str) -> None:
        """`table`, `tr`, `td` or `th` closes."""
        if name == "table" and self._extra_tables:
            self._extra_tables -= 1
        elif self._extra_tables or not self._tables:
            self.block()
        elif name == "table":
            self._close_table()
        elif name == "tr":
            self._close_row()
        else:
            self._close_cell()

    def _here(self) -> _Stretch:
        for table in reversed(self._tables):
            if table.cell is not None:
                return table.cell
        return self._page

    def _close_cell(self) -> None:
        table = self._tables[-1]
        if table.cell is not None:
            table.cells.append("".join(table.cell.pieces).strip())
            table.cell = None

    def _close_row(self) -> None:
        """A row of short cells is a line; cells with lines of their own are layout, one below the other."""
        self._close_cell()
        table = self._tables[-1]
        cells, table.cells = table.cells, []
        filled = [cell for cell in cells if cell]
        if not filled:
            return
        if len(filled) == 1 or any("\n" in cell for cell in filled):
            text = "\n".join(filled)
        else:
            text = " | ".join(cells).rstrip(" |")
        self.block()
        here = self._here()
        here.pieces += [here.wanted if here.has_text else "", text]  # the cells took the room already
        here.wanted, here.has_text, here.marked = "", True, False
        self.block()

    def _close_table(self) -> None:
        self._close_row()
        self._tables.pop()
        self.block(apart=True)
