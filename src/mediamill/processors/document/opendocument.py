"""OpenDocument texts, spreadsheets and presentations: one content.xml for all three."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mediamill.media.errors import DamagedMediaError, ProtectedMediaError
from mediamill.processors.document.archive import Archive
from mediamill.processors.document.document_text import (
    DocumentText,
    Limits,
    Part,
    TextRoom,
    one_line,
    until_full,
)
from mediamill.processors.document.flow import Flow
from mediamill.processors.document.markup import Events, StopReadingError, read_xml, whole_number
from mediamill.processors.document.office import read_properties

CHARACTERS = {"tab": "\t", "line-break": "\n"}
CLOSING = {"note": "]", "annotation": "]", "note-citation": ": ", "creator": ": "}
CELLS = ("table-cell", "covered-table-cell")
# Text that was deleted but is kept, and numbers of pages in styles.
HIDDEN = ("tracked-changes", "deletion", "ruby-text")


class _Paragraph:
    def __init__(self, level: int) -> None:
        self.level = level
        self.pieces: list[str] = []


class _Content(Events):
    """The events of content.xml. A page of a presentation or a sheet starts a part; a text has one."""

    def __init__(self, document: DocumentText, limits: Limits) -> None:
        self._document, self._limits = document, limits
        self._room = TextRoom(limits)
        self.flow = Flow(self._room, limits, document)
        self._label: str | None = None
        self._open: list[_Paragraph] = []
        self._lists = 0
        self._hidden = 0
        self._repeats: list[int] = []
        self._notes = ""  # what the next paragraph of a speaker's notes begins with

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in HIDDEN:
            self._hidden += 1
        elif name in ("p", "h"):
            level = whole_number(attributes.get("outline-level"), 1) if name == "h" else 0
            self._open.append(_Paragraph(min(max(level, 0), 6)))
        elif name in ("list", "note", "annotation"):
            self._start_block(name)
        elif name in ("table", "table-row", *CELLS):
            self._start_table(name, attributes)
        elif name == "page" and self._document.unit == "slide":
            self._start_part(f"Slide {(self._document.count or 0) + 1}")
        elif name == "notes":
            self._notes = "Notes: "
        elif self._open:
            self._start_inside(name, attributes)

    def _start_block(self, name: str) -> None:
        if name == "list":
            self._lists += 1
        elif self._open:
            self._open[-1].pieces.append(" [")

    def _start_inside(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "s":
            self._open[-1].pieces.append(" " * min(max(whole_number(attributes.get("c"), 1), 1), 100))
        elif name in CHARACTERS:
            self._open[-1].pieces.append(CHARACTERS[name])

    def _start_table(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "table":
            if self._document.unit == "sheet" and not self.flow.in_table:
                self._start_part(f"Sheet: {one_line(attributes.get('name', ''), 100)}")
            self.flow.open_table()
        elif name == "table-row":
            self._repeats.append(whole_number(attributes.get("number-rows-repeated"), 1))
            self.flow.open_row()
        else:
            self._repeats.append(whole_number(attributes.get("number-columns-repeated"), 1))

    def _start_part(self, label: str) -> None:
        self.close_part()
        self._document.count = (self._document.count or 0) + 1
        if self._document.count <= self._limits.pages:
            self._label = label
        elif self._document.count > 100_000 or self._limits.late:
            raise StopReadingError
        self.flow = Flow(self._room, self._limits, self._document)

    def close_part(self) -> None:
        """The part is as long as it will be."""
        if self._label is not None and (self._label or self.flow.text.strip()):
            self._document.parts.append(Part(self._label, self.flow.text))
        self._label = None

    def begin_text(self) -> None:
        """A text has no parts: all of it is one."""
        self._label = ""

    def text(self, data: str) -> None:
        if self._open and not self._hidden and self.path[-1] != "date":
            self._open[-1].pieces.append(data.replace("\n", " "))

    def end(self, name: str) -> None:
        if name in HIDDEN:
            self._hidden -= 1
        elif name in ("p", "h") and self._open:
            self._close_paragraph(self._open.pop())
        elif name == "list":
            self._lists -= 1
        elif name in CLOSING and self._open:
            self._open[-1].pieces.append(CLOSING[name])
        elif name in CELLS:
            self.flow.close_cell(self._repeats.pop())
        elif name == "table-row":
            self.flow.close_row(self._repeats.pop())
        elif name == "table":
            self.flow.close_table()

    def _close_paragraph(self, paragraph: _Paragraph) -> None:
        text = "".join(paragraph.pieces)
        if self._open:  # a footnote, a comment or a text box inside a paragraph
            self._open[-1].pieces.append(text)
        elif not text.strip():
            self.flow.gap()
        elif paragraph.level and not self.flow.in_table:
            self.flow.gap()
            self.flow.line(f"{'#' * paragraph.level} {text.strip()}")
            self.flow.gap()
        elif self._lists and not self.flow.in_table:
            self.flow.line(f"{'  ' * min(self._lists - 1, 8)}- {text.strip()}")
        else:
            self.flow.line(self._notes + text)
            self._notes = ""


class _Manifest(Events):
    """A manifest that names a cipher belongs to a file with a password."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002
        if name == "encryption-data":
            raise ProtectedMediaError("the document is protected by a password")


def _read(path: Path, limits: Limits, document: DocumentText) -> DocumentText:
    with Archive(path, limits, "OpenDocument") as archive:
        read_xml(archive.chunks("META-INF/manifest.xml"), _Manifest(), limits, archive.what)
        if "content.xml" not in archive.names:
            raise DamagedMediaError("the OpenDocument file is damaged: content.xml is missing")
        content = _Content(document, limits)
        if document.unit == "page":
            content.begin_text()
        with until_full(document):
            read_xml(archive.chunks("content.xml"), content, limits, archive.what)
        content.close_part()
        read_properties(archive, "meta.xml", document, limits)
    return document


def read_odt(path: Path, limits: Limits) -> DocumentText:
    """An OpenDocument text."""
    return _read(path, limits, DocumentText("odt"))


def read_ods(path: Path, limits: Limits) -> DocumentText:
    """An OpenDocument spreadsheet."""
    return _read(path, limits, DocumentText("ods", unit="sheet"))


def read_odp(path: Path, limits: Limits) -> DocumentText:
    """An OpenDocument presentation."""
    return _read(path, limits, DocumentText("odp", unit="slide"))
