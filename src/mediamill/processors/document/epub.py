"""Books: the chapters in the order of the spine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from mediamill.media.errors import DamagedMediaError, ProtectedMediaError
from mediamill.processors.document.archive import Archive, resolve
from mediamill.processors.document.document_text import DocumentText, Limits, Part, replace_characters
from mediamill.processors.document.markup import Events, read_xml
from mediamill.processors.document.office import read_properties
from mediamill.processors.document.web_page import decode_page, page_text

MAX_ITEMS = 50_000
PAGES = ("application/xhtml+xml", "text/html", "application/xml")


class _Container(Events):
    """Where the package is."""

    package = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "rootfile" and not self.package:
            self.package = attributes.get("full-path", "")


class _Package(Events):
    """Files of the book, and which of them are read in which order."""

    def __init__(self) -> None:
        self.items: dict[str, str] = {}
        self.spine: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "item" and len(self.items) < MAX_ITEMS:
            if attributes.get("media-type", PAGES[0]) in PAGES:
                self.items[attributes.get("id", "")] = unquote(attributes.get("href", ""))
        elif name == "itemref" and len(self.spine) < MAX_ITEMS:
            self.spine.append(attributes.get("idref", ""))


class _Encrypted(Events):
    """Members that a key is needed for; fonts are often among them, and do not matter."""

    def __init__(self) -> None:
        self.members: set[str] = set()

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "CipherReference" and len(self.members) < MAX_ITEMS:
            self.members.add(unquote(attributes.get("URI", "")))


def _chapters(archive: Archive, limits: Limits) -> tuple[str, list[str]]:
    container, package, encrypted = _Container(), _Package(), _Encrypted()
    read_xml(archive.chunks("META-INF/container.xml"), container, limits, archive.what)
    if container.package not in archive.names:
        raise DamagedMediaError("the EPUB file is damaged: its package is missing")
    read_xml(archive.chunks(container.package), package, limits, archive.what)
    read_xml(archive.chunks("META-INF/encryption.xml"), encrypted, limits, archive.what)
    members = [
        resolve(container.package, package.items[key]) for key in package.spine if key in package.items
    ]
    chapters = [member for member in dict.fromkeys(members) if member in archive.names]
    if encrypted.members & set(chapters):
        raise ProtectedMediaError("the book is protected by a key (DRM)")
    return container.package, chapters


def read_epub(path: Path, limits: Limits) -> DocumentText:
    """A book."""
    document = DocumentText("epub", unit="chapter")
    left = limits.characters
    with Archive(path, limits, "EPUB") as archive:
        package, chapters = _chapters(archive, limits)
        document.count = len(chapters)
        for member in chapters[: limits.pages]:
            if limits.late or left <= 0:
                break
            page = decode_page(archive.read(member, limits.text_bytes))
            _, text = page_text(page, replace_characters(limits, left), document)
            left -= len(text)
            document.parts.append(Part("", text))
        read_properties(archive, package, document, limits)
    return document
