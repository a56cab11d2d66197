"""PowerPoint presentations: the slides in the order of the show, with their titles, tables and notes."""

from __future__ import annotations

from collections.abc import Mapping
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

TITLES = ("title", "ctrTitle")
FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")  # page number, date, footer: the same on every slide


class _Order(Events):
    """The ids of the slides as they are shown."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.count = 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "sldId" and self.path[-2:-1] == ["sldIdLst"]:
            self.count += 1
            if self.count <= 100_000:
                self.ids.append(attributes.get("id", ""))


class _Slide(Events):
    """The text of a slide or of its notes."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.title: list[str] = []
        self.hidden = False
        self._kind = ""
        self._level = 0
        self._pieces: list[str] | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in ("sld", "notes"):
            self.hidden = attributes.get("show") in ("0", "false")
        elif name in ("sp", "graphicFrame"):
            self._kind = ""
        elif name == "ph":
            self._kind = attributes.get("type", "body")
        elif name == "p":
            self._pieces, self._level = [], 0
        elif name == "pPr":
            self._level = min(max(whole_number(attributes.get("lvl")), 0), 8)
        elif name == "br" and self._pieces is not None:
            self._pieces.append("\n")
        elif name == "tbl":
            self._flow.open_table()
        elif name == "tr":
            self._flow.open_row()

    def text(self, data: str) -> None:
        if self._pieces is not None and self.path[-1] == "t" and "Fallback" not in self.path:
            self._pieces.append(data)

    def end(self, name: str) -> None:
        if name == "p" and self._pieces is not None:
            self._close_paragraph("".join(self._pieces).strip())
            self._pieces = None
        elif name == "tc":
            self._flow.close_cell()
        elif name == "tr":
            self._flow.close_row()
        elif name == "tbl":
            self._flow.close_table()

    def _close_paragraph(self, text: str) -> None:
        if not text or self._kind in FURNITURE:
            return
        if self._kind in TITLES:
            self.title.append(text)
        elif self._kind == "body" or self._level:
            self._flow.line(f"{'  ' * self._level}- {text}")
        else:
            self._flow.line(text)


class _Reader:
    def __init__(self, archive: Archive, document: DocumentText, limits: Limits) -> None:
        self._archive, self._document, self._limits = archive, document, limits
        self._room = TextRoom(limits)

    def add(self, number: int, member: str) -> None:
        slide, text = self._read(member)
        notes = [
            self._read(link.target)[1]
            for link in list(links_of(self._archive, member, self._limits).values())[:100]
            if link.kind == "notesSlide"
        ]
        label = f"Slide {number}"
        if title := one_line(" ".join(slide.title)):
            label += f": {title}"
        if slide.hidden:
            label += " (hidden)"
        told = [text, *(f"Notes: {plain_notes(note)}" for note in notes if note.strip())]
        self._document.parts.append(Part(label, "\n".join(filter(None, told))))

    def _read(self, member: str) -> tuple[_Slide, str]:
        flow = Flow(self._room, self._limits, self._document)
        slide = _Slide(flow)
        with until_full(self._document):
            read_xml(self._archive.chunks(member), slide, self._limits, self._archive.what)
        return slide, flow.text


def plain_notes(text: str) -> str:
    """Notes are prose, though they sit in a placeholder for lists."""
    return "\n".join(line.removeprefix("- ") for line in text.splitlines())


def read_pptx(path: Path, limits: Limits) -> DocumentText:
    """A PowerPoint presentation."""
    document = DocumentText("pptx", unit="slide")
    with Archive(path, limits, "PowerPoint") as archive:
        main = main_part(archive, "ppt/presentation.xml", limits)
        links: dict[str, Link] = links_of(archive, main, limits)
        order = _Order()
        read_xml(archive.chunks(main), order, limits, archive.what)
        slides = [links[key].target for key in order.ids if key in links]
        document.count = len(slides)
        reader = _Reader(archive, document, limits)
        for number, member in enumerate(slides[: limits.pages], 1):
            if limits.late:
                break
            reader.add(number, member)
        read_properties(archive, "docProps/core.xml", document, limits)
    return document
