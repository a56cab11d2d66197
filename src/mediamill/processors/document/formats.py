"""Which reader serves which type of document, and why some are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mediamill.media.errors import ProtectedMediaError, UnsupportedMediaError
from mediamill.processors.document.document_text import DocumentText, Limits
from mediamill.processors.document.docx import read_docx
from mediamill.processors.document.epub import read_epub
from mediamill.processors.document.ics import read_ics
from mediamill.processors.document.opendocument import read_odp, read_ods, read_odt
from mediamill.processors.document.plain import read_plain
from mediamill.processors.document.pptx import read_pptx
from mediamill.processors.document.rtf import read_rtf
from mediamill.processors.document.vcf import read_vcf
from mediamill.processors.document.web_page import read_html
from mediamill.processors.document.xlsx import read_xlsx

ReadDocument = Callable[[Path, Limits], DocumentText]
PDF = "application/pdf"
MAIL = "message/rfc822"
OFFICE = "application/vnd.openxmlformats-officedocument."
OPEN = "application/vnd.oasis.opendocument."
READERS: dict[str, ReadDocument] = {
    f"{OFFICE}wordprocessingml.document": read_docx,
    f"{OFFICE}spreadsheetml.sheet": read_xlsx,
    f"{OFFICE}presentationml.presentation": read_pptx,
    f"{OPEN}text": read_odt,
    f"{OPEN}spreadsheet": read_ods,
    f"{OPEN}presentation": read_odp,
    "application/epub+zip": read_epub,
    "application/rtf": read_rtf,
    "text/rtf": read_rtf,
    "text/html": read_html,
    "application/xhtml+xml": read_html,
    "text/calendar": read_ics,
    "text/vcard": read_vcf,
    "text/markdown": partial(read_plain, format_name="md"),
    "text/csv": partial(read_plain, format_name="csv"),
    "application/json": partial(read_plain, format_name="json"),
    "application/xml": partial(read_plain, format_name="xml"),
    "text/xml": partial(read_plain, format_name="xml"),
}
OLD = "the old binary {} format (.{}) is not supported; save it as .{}x"
REFUSED = {
    "application/msword": OLD.format("Word", "doc", "doc"),
    "application/vnd.ms-excel": OLD.format("Excel", "xls", "xls"),
    "application/vnd.ms-powerpoint": OLD.format("PowerPoint", "ppt", "ppt"),
    "application/vnd.ms-outlook": "Outlook's own format (.msg) is not supported; save the mail as .eml",
}


def reader_of(mime_type: str) -> ReadDocument:
    """The reader of all types but PDF and mail, which need more than the file; or the reason why there is none."""
    if reader := READERS.get(mime_type):
        return reader
    if mime_type.startswith("text/"):
        return read_plain
    if mime_type == "application/x-ooxml-protected":
        raise ProtectedMediaError("the Office document is protected by a password")
    raise UnsupportedMediaError(REFUSED.get(mime_type, f"documents of type {mime_type} are not supported"))
