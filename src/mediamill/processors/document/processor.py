"""The processor of documents: a reader for the type, OCR for scanned pages, and one readable text."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mediamill.media.errors import EmptyMediaError
from mediamill.media.sniff import sniff
from mediamill.processors.document.document_text import DocumentText, Limits, replace_characters
from mediamill.processors.document.eml import read_eml
from mediamill.processors.document.formats import MAIL, PDF, reader_of
from mediamill.processors.document.pdf import Render, read_pdf
from mediamill.processors.document.previews import make_previews
from mediamill.processors.document.scans import Scans
from mediamill.processors.document.wording import document_facts, tell_document
from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.result import ProcessingResult

READING_SHARE = 0.75  # of the time limit; then what is there is handed over
NESTED = 2  # a document in a mail in a mail
ATTACHMENT_CHARACTERS = 200_000
REPORT_SECONDS = 1.0


class DocumentProcessor(BaseMediaProcessor):
    """Documents to text."""

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """Read the document and tell it."""
        del caption, media_metadata  # a document speaks for itself
        limits = Limits(
            pages=self.settings.document_pages,
            ocr_pages=self.settings.document_ocr_pages,
            deadline=time.monotonic() + self.timeout_seconds * READING_SHARE,
        )
        reading = _Reading(self, limits)
        document = reading.read(file_path, mime_type, level=0, key="")
        content = tell_document(document)
        if content is None:
            raise EmptyMediaError("empty document: there is no text in it")
        files = {}
        if mime_type == PDF and self.given.payload.get("previews"):
            files = make_previews(file_path, self.given.folder)
        return ProcessingResult(
            content, models=reading.scans.models, facts=document_facts(document), files=files
        )


class _Reading:
    """One document, and the documents inside it."""

    def __init__(self, processor: DocumentProcessor, limits: Limits) -> None:
        self._given, self._limits = processor.given, limits
        self.scans = Scans(processor.given, limits)
        self._attachments = itertools.count(1)
        self._reported_at = 0.0

    def read(self, path: Path, mime_type: str, level: int, key: str) -> DocumentText:
        """`key` names the document among those of the job, for the checkpoint."""
        limits = replace_characters(self._limits, ATTACHMENT_CHARACTERS) if level else self._limits
        if mime_type == PDF:
            return read_pdf(path, limits, partial(self._read_scan, key), self._on_page)
        if mime_type == MAIL:
            attached = partial(self._read_attachment, level + 1)
            return read_eml(path, limits, attached if level < NESTED else None)
        return reader_of(mime_type)(path, limits)

    def _read_scan(self, key: str, number: int, render: Render) -> str | None:
        return self.scans.read(f"{key}{number}", render)

    def _read_attachment(self, level: int, data: bytes) -> DocumentText:
        number = next(self._attachments)
        path = self._given.folder / f"attachment-{number}"
        if not data:
            raise EmptyMediaError("it is empty")
        path.write_bytes(data)
        try:
            return self.read(path, sniff(path).mime_type, level, f"attachment {number} page ")
        finally:
            path.unlink(missing_ok=True)

    def _on_page(self, number: int, total: int) -> None:
        now = time.monotonic()
        if now - self._reported_at >= REPORT_SECONDS or number == total:
            self._reported_at = now
            self._given.report(step=f"page {number} of {total}", percent=100 * number / total)
