"""Excel workbooks: the sheets in order, their rows as `a | b`, dates as dates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mediamill.media.errors import DamagedMediaError
from mediamill.processors.document.archive import Archive
from mediamill.processors.document.cell_values import format_kind, number_text
from mediamill.processors.document.document_text import (
    DocumentText,
    Limits,
    Part,
    TextFullError,
    TextRoom,
    one_line,
    until_full,
)
from mediamill.processors.document.flow import join_cells
from mediamill.processors.document.markup import Events, StopReadingError, read_xml, whole_number
from mediamill.processors.document.office import links_of, main_part, read_properties

STRINGS = 1_000_000
CELL_CHARACTERS = 32_767  # Excel's own limit
MAX_COLUMN = 16_383
MAX_SHEETS = 10_000
CODED = re.compile(r"_x([0-9A-Fa-f]{4})_")
REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})$")


@dataclass(slots=True)
class _Book(Events):
    """Names and links of the sheets."""

    sheets: list[tuple[str, str, bool]] = field(default_factory=list)  # name, link, hidden
    count: int = 0
    is_1904: bool = False
    path: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "workbookPr":
            self.is_1904 = attributes.get("date1904") in ("1", "true")
        elif name == "sheet" and "sheets" in self.path:
            self.count += 1
            if len(self.sheets) < MAX_SHEETS:
                hidden = attributes.get("state", "visible") != "visible"
                self.sheets.append((attributes.get("name", ""), attributes.get("id", ""), hidden))


class _Strings(Events):
    """The shared strings; phonetic hints are left out."""

    def __init__(self, room: TextRoom) -> None:
        self.strings: list[str] = []
        self._room = room
        self._pieces: list[str] = []

    def text(self, data: str) -> None:
        if self.path[-1] == "t" and "rPh" not in self.path:
            self._pieces.append(data[:CELL_CHARACTERS])

    def end(self, name: str) -> None:
        if name == "si":
            self.strings.append(self._room.take(decode("".join(self._pieces)[:CELL_CHARACTERS])))
            self._pieces.clear()
            if len(self.strings) >= STRINGS:
                raise StopReadingError


class _Styles(Events):
    """Style number -> kind of number."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self._codes: dict[int, str] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        number = whole_number(attributes.get("numFmtId"))
        if name == "numFmt" and len(self._codes) < 10_000:
            self._codes[number] = attributes.get("formatCode", "")
        elif name == "xf" and self.path[-2:-1] == ["cellXfs"] and len(self.kinds) < 100_000:
            self.kinds.append(format_kind(number, self._codes.get(number)))


@dataclass(slots=True)
class _Shared:
    """What the sheets of one workbook have in common."""

    strings: list[str]
    kinds: list[str]
    is_1904: bool
    room: TextRoom
    cells_left: int
    limits: Limits


class _Sheet(Events):
    """The rows of a sheet. Only cells that are there cost anything, wherever they are."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self.lines: list[str] = []
        self.stopped = ""
        self._row: list[tuple[int, str]] = []
        self._cell: Mapping[str, str] = {}
        self._column = -1
        self._pieces: dict[str, list[str]] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "row":
            self._row, self._column = [], -1
        elif name == "c":
            self._cell, self._pieces = attributes, {}
            self._column = min(column_of(attributes.get("r", ""), self._column + 1), MAX_COLUMN)

    def text(self, data: str) -> None:
        name = self.path[-1]
        if name in ("v", "t", "f") and "rPh" not in self.path:
            pieces = self._pieces.setdefault(name, [])
            if len(pieces) < 1_000:
                pieces.append(data[:CELL_CHARACTERS])

    def end(self, name: str) -> None:
        if name == "c":
            self._shared.cells_left -= 1
            if text := self._value():
                self._row.append((self._column, " ".join(text[:CELL_CHARACTERS].split())))
            if self._shared.cells_left <= 0:
                self._stop(f"[… more cells not read: {self._shared.limits.cells:,} are the limit]")
        elif name == "row":
            self._close_row()

    def _close_row(self) -> None:
        line = join_cells(sorted(self._row)) if self._row else ""
        self._row = []
        if line:
            self.lines.append(self._shared.room.take(line))
        if len(self.lines) >= self._shared.limits.rows:
            self._stop(f"[… more rows not read: {self._shared.limits.rows:,} are the limit]")
        if len(self.lines) % 1_000 == 999 and self._shared.limits.late:
            self._stop("[… more rows not read: out of time]")

    def _stop(self, reason: str) -> None:
        if self._row:
            self.lines.append(self._shared.room.take(join_cells(sorted(self._row))))
        self.stopped = reason
        raise StopReadingError

    def _value(self) -> str:
        kind = self._cell.get("t", "n")
        value = "".join(self._pieces.get("v", ()))
        if kind == "s":
            number = whole_number(value, -1)
            return self._shared.strings[number] if 0 <= number < len(self._shared.strings) else ""
        if kind == "inlineStr":
            return decode("".join(self._pieces.get("t", ())))
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(value.strip(), value)
        if kind in ("str", "e", "d"):
            return decode(value)
        if not value:
            formula = "".join(self._pieces.get("f", ()))
            return f"={formula}" if formula else ""
        style = whole_number(self._cell.get("s"), -1)
        format_ = self._shared.kinds[style] if 0 <= style < len(self._shared.kinds) else ""
        return number_text(value[:400], format_, self._shared.is_1904)


def column_of(reference: str, default: int) -> int:
    """The column of `C7` is 2."""
    found = REFERENCE.match(reference)
    if not found:
        return default
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - ord("A") + 1
    return column - 1


def decode(text: str) -> str:
    """Characters that XML cannot hold are written as `_x000D_`."""
    return CODED.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text


def _shared_by_sheets(
    archive: Archive, targets: Mapping[str, str], book: _Book, document: DocumentText, limits: Limits
) -> _Shared:
    strings, styles = _Strings(TextRoom(limits)), _Styles()
    try:
        read_xml(archive.chunks(targets.get("sharedStrings", "")), strings, limits, archive.what)
    except TextFullError:
        document.warn("the texts of the workbook are too long; some were left out")
    try:
        read_xml(archive.chunks(targets.get("styles", "")), styles, limits, archive.what)
    except DamagedMediaError:
        document.warn("the styles cannot be read; dates may be shown as numbers")
    return _Shared(strings.strings, styles.kinds, book.is_1904, TextRoom(limits), limits.cells, limits)


def read_xlsx(path: Path, limits: Limits) -> DocumentText:
    """An Excel workbook."""
    document = DocumentText("xlsx", unit="sheet")
    with Archive(path, limits, "Excel") as archive:
        main = main_part(archive, "xl/workbook.xml", limits)
        links = links_of(archive, main, limits)
        book = _Book()
        read_xml(archive.chunks(main), book, limits, archive.what)
        document.count = book.count
        targets = {link.kind: link.target for link in links.values()}
        shared = _shared_by_sheets(archive, targets, book, document, limits)
        for name, key, hidden in book.sheets[: limits.pages]:
            if limits.late:
                break
            sheet = _Sheet(shared)
            if key in links:
                with until_full(document):
                    read_xml(archive.chunks(links[key].target), sheet, limits, archive.what)
            label = f"Sheet: {one_line(name, 100)}" + (" (hidden)" if hidden else "")
            document.parts.append(Part(label, "\n".join([*sheet.lines, *filter(None, [sheet.stopped])])))
        read_properties(archive, "docProps/core.xml", document, limits)
    return document
