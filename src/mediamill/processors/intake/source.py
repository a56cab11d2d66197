"""A file as pages: documents by their readers, images by OCR; both with places where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mediamill.media.errors import EmptyMediaError, UnsupportedMediaError
from mediamill.media.images import Picture
from mediamill.processors.contract import ProcessorInput
from mediamill.processors.document.document_text import DocumentText, Limits, Part
from mediamill.processors.document.layout import PageLayout
from mediamill.processors.document.reading import DocumentReading
from mediamill.processors.document.wording import document_facts, tell_document
from mediamill.processors.image import describe_image
from mediamill.processors.image.examine import Eyes, examine
from mediamill.processors.image.wording import Seen, sight_sentence, text_blocks
from mediamill.processors.intake.kept import Kept, KeptPages, KeptVision
from mediamill.processors.intake.source_page import SourcePage, page_of_layout, page_of_text
from mediamill.processors.reading_order import Piece
from mediamill.processors.result import Tag
from mediamill.processors.types import kind_of

PIECES = 200_000  # of a document, with their places
MOST_PAGES = 2_000
LABEL_CHARACTERS = 120


@dataclass(slots=True)
class Source:
    """All that was read of a file. `seen`: what a model says of an image, in a sentence."""

    kind: Literal["document", "image"]
    content: str
    pages: list[SourcePage]
    facts: dict[str, Any]
    models: Sequence[str] = ()
    tags: Sequence[Tag] = ()
    seen: str = ""
    document: DocumentText | None = None
    picture: Picture | None = None
    warnings: list[str] = field(default_factory=list)


def read_source(
    given: ProcessorInput, path: Path, mime_type: str, limits: Limits, eyes: Eyes, kept: Kept
) -> Source:
    """The pages of a document or an image; UnsupportedMediaError for what is neither."""
    kind = kind_of(mime_type)
    if kind == "image":
        return _read_image(path, mime_type, Eyes(KeptVision(eyes.vision, kept), eyes.reader))
    if kind == "document":
        return _read_document(given, path, mime_type, limits, kept)
    raise UnsupportedMediaError(f"files of type {mime_type} are kept, but not analysed")


def _read_document(given: ProcessorInput, path: Path, mime_type: str, limits: Limits, kept: Kept) -> Source:
    reading = DocumentReading(given, limits, KeptPages(given, kept))
    document = reading.read(path, mime_type)
    content = tell_document(document)
    if content is None:
        raise EmptyMediaError("empty document: there is no text in it")
    pages = [_page(number, part, document) for number, part in enumerate(document.parts[:MOST_PAGES], 1)]
    return Source(
        "document", content, pages, document_facts(document), reading.scans.models, document=document
    )


def _page(number: int, part: Part, document: DocumentText) -> SourcePage:
    label = part.label[:LABEL_CHARACTERS] or (f"Part {number}" if len(document.parts) > 1 else "Text")
    if part.layout is not None:
        return page_of_layout(number, label, part.text, part.layout)
    return page_of_text(number, label, part.text, document.format)


def _read_image(path: Path, mime_type: str, eyes: Eyes) -> Source:
    examined = examine(path, mime_type, "", eyes)
    picture = examined.picture
    pieces = tuple(Piece(line.text, *line.box) for line in examined.lines)
    layout = PageLayout(pieces, picture.image.width, picture.image.height, scanned=True)
    page = page_of_layout(1, "Image", "\n".join(text_blocks(examined.lines)), layout)
    facts = {name: value for name, value in examined.facts().items() if name != "text_lines"}
    sight = examined.sight
    seen = sight_sentence(Seen(sight.tags, sight.description, examined.lines))
    return Source(
        "image",
        describe_image(examined),
        [page],
        facts,
        examined.models,
        sight.tags,
        seen if sight.description else "",
        picture=picture,
    )
