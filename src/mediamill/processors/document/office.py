"""What the three Office formats share: links between members, and what a file says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mediamill.media.errors import DamagedMediaError
from mediamill.processors.document.archive import Archive, resolve
from mediamill.processors.document.document_text import DocumentText, Limits
from mediamill.processors.document.markup import Events, read_xml

MAX_LINKS = 50_000


@dataclass(frozen=True, slots=True)
class Link:
    """From one member to another; `kind` is the last word of its type."""

    id: str
    kind: str
    target: str


class _Links(Events):
    def __init__(self, source: str) -> None:
        self.source = source
        self.found: dict[str, Link] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if (
            name != "Relationship"
            or attributes.get("TargetMode") == "External"
            or len(self.found) >= MAX_LINKS
        ):
            return
        key, kind = attributes.get("Id", ""), attributes.get("Type", "").rpartition("/")[2]
        self.found[key] = Link(key, kind, resolve(self.source, attributes.get("Target", "")))


def links_of(archive: Archive, source: str, limits: Limits) -> dict[str, Link]:
    """The links of a member (of the whole file for ""), by id."""
    folder, _, name = source.rpartition("/")
    member = f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels"
    events = _Links(source)
    read_xml(archive.chunks(member), events, limits, archive.what)
    return events.found


def main_part(archive: Archive, usual: str, limits: Limits) -> str:
    """The member that the document begins with."""
    for link in links_of(archive, "", limits).values():
        if link.kind == "officeDocument" and link.target in archive.names:
            return link.target
    if usual in archive.names:
        return usual
    raise DamagedMediaError(f"the {archive.what} file is damaged: {usual} is missing")


class _Properties(Events):
    """Dublin Core names in docProps/core.xml, meta.xml of OpenDocument and the package of an EPUB."""

    NAMES = {  # noqa: RUF012
        "title": "title",
        "creator": "author",
        "initial-creator": "author",
        "created": "created",
        "creation-date": "created",
        "modified": "modified",
        "date": "modified",
    }

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}

    def text(self, data: str) -> None:
        name = self.NAMES.get(self.path[-1]) if self.path else None
        if name and len(self.fields.get(name, "")) < 1_000:
            self.fields[name] = self.fields.get(name, "") + data[:1_000]


def read_properties(archive: Archive, member: str, document: DocumentText, limits: Limits) -> None:
    """Title, author and dates; a damaged member costs only them."""
    events = _Properties()
    try:
        read_xml(archive.chunks(member), events, limits, archive.what)
    except DamagedMediaError:
        document.warn("what the file says about itself cannot be read")
    document.describe(events.fields)
