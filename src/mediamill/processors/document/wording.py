"""A document as one text for a conversation, and the facts about it."""

from __future__ import annotations

from typing import Any

from mediamill.processors.document.document_text import DocumentText, plural
from mediamill.processors.page_spans import pages_not_read, spans_of

MOST_TOLD = 500  # stretches of unread pages in the facts
NAMES = {
    "pdf": "PDF document",
    "docx": "Word document",
    "xlsx": "Excel workbook",
    "pptx": "PowerPoint presentation",
    "odt": "OpenDocument text",
    "ods": "OpenDocument spreadsheet",
    "odp": "OpenDocument presentation",
    "epub": "Book",
    "html": "Web page",
    "rtf": "RTF document",
    "ics": "Calendar",
}


def tell_document(document: DocumentText) -> str | None:
    """The text that a conversation gets; None for an empty document."""
    told = [_part_text(document, label, text) for label, text in _parts(document)]
    tail = _tail(document)
    if not told and document.pictures and not document.unread:
        told = [f"[no text found: {plural(document.pictures, 'page')} with pictures only]"]
    if not told and not tail:
        return None
    return "\n\n".join(filter(None, [_head(document), *told, *tail]))


def _parts(document: DocumentText) -> list[tuple[str, str]]:
    """Empty pages are passed over; a slide may be its title alone."""
    return [
        (part.label, part.text.strip("\n"))
        for part in document.parts
        if part.text.strip() or (document.unit == "slide" and ":" in part.label)
    ]


def _part_text(document: DocumentText, label: str, text: str) -> str:
    only_one = (document.count or 0) == 1 and document.unit in ("page", "sheet")
    return f"[{label}]\n{text}".rstrip() if label and not only_one else text


def _head(document: DocumentText) -> str:
    """One line on what it is, if that helps: mails, contacts and plain texts speak for themselves."""
    name = NAMES.get(document.format)
    title = document.title
    if any(title in part.text[:500] for part in document.parts[:1]):
        title = ""
    several = document.count is not None and document.count > 1
    if not name or not (title or several):
        return ""
    size = f", {plural(document.count, document.unit)}" if several and document.count else ""
    return f"{name}{size}{': ' if title else ''}{title}"


def _tail(document: DocumentText) -> list[str]:
    """What was left out."""
    lines = []
    left_out = (document.count or 0) - _read_count(document)
    if document.unread:
        lines.append(f"[{pages_not_read(spans_of(document.unread))}]")
    elif left_out > 0 and document.unit not in ("event", "contact"):
        lines.append(f"[… {plural(left_out, f'more {document.unit}')} not read]")
    lines += [f"[{warning}]" for warning in document.warnings]
    return ["\n".join(lines)] if lines else []


def _read_count(document: DocumentText) -> int:
    return document.pages_read if document.pages_read is not None else len(document.parts)


def document_facts(document: DocumentText) -> dict[str, Any]:
    """What is known about the document; what is not known is left out."""
    facts: dict[str, Any] = {
        "format": document.format,
        "pages": document.count,
        "pages_read": _read_count(document) if document.count is not None else None,
        "unit": document.unit if document.count is not None else None,
        "unread": spans_of(document.unread)[:MOST_TOLD],
        "ocr_pages": document.ocr_pages or None,
        "title": document.title,
        "author": document.author,
        "created": document.created,
        "modified": document.modified,
        "warnings": document.warnings,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}
