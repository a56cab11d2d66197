"""Word documents: paragraphs, headings, lists, tables, notes, comments, headers and footers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

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
from mediamill.processors.document.markup import Events, read_xml, whole_number
from mediamill.processors.document.office import Link, links_of, main_part, read_properties

HEADING = re.compile(r"(?:heading|überschrift|titre) ?([1-9])$", re.IGNORECASE)
CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# Deleted text, the code of fields, and the older copy of a drawing that is there twice.
HIDDEN = {"instrText", "delText", "delInstrText", "Fallback"}
MAX_STYLES = 20_000


class _Styles(Events):
    """Style id -> level of heading. Ids differ by language, names do not."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self._id = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "style":
            self._id = attributes.get("styleId", "")
        elif name == "name" and self.path[-2:-1] == ["style"] and len(self.levels) < MAX_STYLES:
            value = attributes.get("val", "")
            if value.lower() == "title":
                self.levels[self._id] = 1
            elif found := HEADING.match(value):
                self.levels[self._id] = int(found[1])

    def level(self, style: str) -> int:
        """0 for what is no heading."""
        found = HEADING.match(style)
        return self.levels.get(style) or (int(found[1]) if found else 0)


class _Numbering(Events):
    """(list id, level) -> is it counted? Bullets are not."""

    def __init__(self) -> None:
        self.formats: dict[tuple[str, int], str] = {}  # by abstract list
        self.abstract: dict[str, str] = {}
        self._list, self._level, self._number = "", 0, ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if len(self.formats) > MAX_STYLES or len(self.abstract) > MAX_STYLES:
            return
        if name == "abstractNum":
            self._list = attributes.get("abstractNumId", "")
        elif name == "lvl":
            self._level = whole_number(attributes.get("ilvl"))
        elif name == "numFmt" and "abstractNum" in self.path:
            self.formats[self._list, self._level] = attributes.get("val", "")
        elif name == "num":
            self._number = attributes.get("numId", "")
        elif name == "abstractNumId":
            self.abstract[self._number] = attributes.get("val", "")

    def is_counted(self, number: str, level: int) -> bool:
        kind = self.formats.get((self.abstract.get(number, ""), level), "bullet")
        return kind not in ("bullet", "none")


class _Paragraph:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.level = 0
        self.list: tuple[str, int] | None = None
        self.list_level = 0


class _Body(Events):
    """The events of a part with paragraphs."""

    def __init__(self, flow: Flow, styles: _Styles, numbering: _Numbering) -> None:
        self._flow, self._styles, self._numbering = flow, styles, numbering
        self._open: list[_Paragraph] = []  # a text box is a paragraph inside a paragraph
        self._hidden = 0
        self._counters: dict[tuple[str, int], int] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in HIDDEN:
            self._hidden += 1
        elif name == "p":
            self._open.append(_Paragraph())
        elif name == "tbl":
            self._flow.open_table()
        elif name == "tr":
            self._flow.open_row()
        elif name in ("comment", "footnote", "endnote"):
            self._start_note(name, attributes)
        elif self._open:
            self._start_inside(name, attributes, self._open[-1])

    def _start_note(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "comment":
            self._flow.line(f"{one_line(attributes.get('author', '')) or 'Comment'}:")
        elif attributes.get("type", "normal") == "normal":
            self._flow.line(f"[{one_line(attributes.get('id', ''), 10)}]")

    def _start_inside(self, name: str, attributes: Mapping[str, str], paragraph: _Paragraph) -> None:
        value = attributes.get("val")
        if name in CHARACTERS:
            if "pPr" not in self.path:  # there, `tab` is a tab stop
                paragraph.pieces.append(CHARACTERS[name])
        elif name == "pStyle":
            paragraph.level = self._styles.level(value or "") or paragraph.level
        elif name == "outlineLvl":
            level = whole_number(value, 9)
            paragraph.level = level + 1 if 0 <= level < 9 else 0
        elif name == "numId":
            paragraph.list = (value or "", paragraph.list_level) if value not in (None, "0") else None
        elif name == "ilvl":
            paragraph.list_level = min(max(whole_number(value), 0), 8)
        elif name in ("footnoteReference", "endnoteReference"):
            paragraph.pieces.append(f"[{one_line(attributes.get('id', ''), 10)}]")

    def text(self, data: str) -> None:
        if self._open and not self._hidden and self.path[-1] == "t":
            self._open[-1].pieces.append(data)

    def end(self, name: str) -> None:
        if name in HIDDEN:
            self._hidden -= 1
        elif name == "p" and self._open:
            self._close_paragraph(self._open.pop())
        elif name == "tc":
            self._flow.close_cell()
        elif name == "tr":
            self._flow.close_row()
        elif name == "tbl":
            self._flow.close_table()

    def _close_paragraph(self, paragraph: _Paragraph) -> None:
        text = "".join(paragraph.pieces)
        if not text.strip():
            self._flow.gap()
            return
        if self._flow.in_table:
            self._flow.line(text)
        elif paragraph.level:
            self._flow.gap()
            self._flow.line(f"{'#' * min(paragraph.level, 6)} {text.strip()}")
            self._flow.gap()
        elif paragraph.list:
            self._flow.line(f"{'  ' * paragraph.list[1]}{self._mark(*paragraph.list)} {text.strip()}")
        else:
            self._flow.line(text)

    def _mark(self, number: str, level: int) -> str:
        if not self._numbering.is_counted(number, level):
            return "-"
        for deeper in range(level + 1, 9):
            self._counters.pop((number, deeper), None)
        self._counters[number, level] = self._counters.get((number, level), 0) + 1
        return f"{self._counters[number, level]}."


class _Reader:
    def __init__(self, archive: Archive, document: DocumentText, limits: Limits) -> None:
        self._archive, self._document, self._limits = archive, document, limits
        self._room = TextRoom(limits)
        self._styles, self._numbering = _Styles(), _Numbering()

    def prepare(self, links: Iterable[Link]) -> None:
        for link in links:
            if link.kind == "styles":
                self._read(link.target, self._styles)
            elif link.kind == "numbering":
                self._read(link.target, self._numbering)

    def add(self, label: str, member: str) -> None:
        """One part of the document; the same header on every page is told once."""
        flow = Flow(self._room, self._limits, self._document)
        with until_full(self._document):
            self._read(member, _Body(flow, self._styles, self._numbering))
        part = Part(label, flow.text)
        if part.text.strip() and part not in self._document.parts:
            self._document.parts.append(part)

    def _read(self, member: str, events: Events) -> None:
        read_xml(self._archive.chunks(member), events, self._limits, self._archive.what)


ORDER = {"header": "Header", "": "", "footer": "Footer", "footnotes": "Footnotes", "endnotes": "Endnotes"}


def read_docx(path: Path, limits: Limits) -> DocumentText:
    """A Word document."""
    document = DocumentText("docx")
    with Archive(path, limits, "Word") as archive:
        main = main_part(archive, "word/document.xml", limits)
        links = list(links_of(archive, main, limits).values())[: limits.entries]
        reader = _Reader(archive, document, limits)
        reader.prepare(links)
        for kind, label in {**ORDER, "comments": "Comments"}.items():
            for member in [link.target for link in links if link.kind == kind] if kind else [main]:
                reader.add(label, member)
        read_properties(archive, "docProps/core.xml", document, limits)
    return document
