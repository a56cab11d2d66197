"""What a reader makes of a document, and how much of it a reader may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from mediamill.processors.document.layout import PageLayout

MEGABYTE = 1024 * 1024
FIELD_CHARACTERS = 300
CHARACTERS = 2_000_000  # of a document


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one document. What lies beyond is left out and said, or refused."""

    pages: int = 500
    ocr_pages: int = 50
    characters: int = CHARACTERS
    text_bytes: int = 8 * MEGABYTE  # of a plain text, web page or RTF file
    mail_bytes: int = 64 * MEGABYTE
    members: int = 20_000  # of an archive
    part_bytes: int = 64 * MEGABYTE  # of one unpacked member
    unpacked_bytes: int = 256 * MEGABYTE  # of all of them
    elements: int = 4_000_000  # of one XML part
    depth: int = 200
    rows: int = 20_000  # of a sheet
    cells: int = 500_000  # of a document
    entries: int = 5_000  # events, contacts, attachments, comments …
    pieces: int = 0  # whose places on the page are kept; nobody needs them unless he shows pages
    deadline: float = float("inf")  # of time.monotonic()

    @property
    def late(self) -> bool:
        """Is it time to stop and hand over what is there?"""
        return time.monotonic() > self.deadline


@dataclass(frozen=True, slots=True)
class Part:
    """A page, sheet, slide, chapter … The label may be empty."""

    label: str
    text: str
    layout: PageLayout | None = None


@dataclass(slots=True)
class DocumentText:
    """A document as text."""

    format: str
    parts: list[Part] = field(default_factory=list)
    count: int | None = None  # pages, sheets or slides in the file, if it has such things
    unit: str = "page"
    ocr_pages: int = 0
    pictures: int = 0  # pages that hold something to see, but nothing to read
    title: str = ""
    author: str = ""
    created: str = ""
    modified: str = ""
    warnings: list[str] = field(default_factory=list)
    pages_read: int | None = None
    unread: list[int] = field(default_factory=list)  # the numbers of pages that were left out

    def warn(self, text: str) -> None:
        """Say once that something is missing."""
        if text not in self.warnings and len(self.warnings) < 20:
            self.warnings.append(text)

    def describe(self, fields: dict[str, str]) -> None:
        """Take title, author and dates from what the file says about itself."""
        for name in ("title", "author", "created", "modified"):
            if value := one_line(fields.get(name, "")):
                setattr(self, name, value)


class TextFullError(Exception):
    """The text is as long as it may be. Only for readers: it never leaves them."""


class TextRoom:
    """How many characters a document may still become; one for all its parts."""

    def __init__(self, limits: Limits) -> None:
        self.left = limits.characters

    def take(self, text: str) -> str:
        """The text, if there is room; its beginning and then TextFullError at the next call, if not."""
        if self.left <= 0:
            raise TextFullError
        text = text[: self.left]
        self.left -= len(text) + 1
        return text


@contextmanager
def until_full(document: DocumentText) -> Iterator[None]:
    """Whoever runs out of room keeps what it has, and the document says so."""
    try:
        yield
    except TextFullError:
        document.warn("the text is too long; its end was left out")


def one_line(text: str, limit: int = FIELD_CHARACTERS) -> str:
    """A stranger's field for a head line: no line breaks, no control characters, bounded."""
    cut = "".join(char if char.isprintable() else " " for char in text[: limit * 4])
    line = " ".join(cut.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def plural(count: int, noun: str) -> str:
    """`1 page`, `2 pages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def replace_characters(limits: Limits, characters: int) -> Limits:
    """The same limits with another length of text, for a document inside a document."""
    return replace(limits, characters=max(1, min(characters, limits.characters)))
