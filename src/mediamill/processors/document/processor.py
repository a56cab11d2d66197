"""The processor of documents: a reader for the type, OCR for scanned pages, and one readable text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mediamill.media.errors import EmptyMediaError
from mediamill.processors.document.document_text import Limits
from mediamill.processors.document.formats import PDF
from mediamill.processors.document.previews import make_previews
from mediamill.processors.document.reading import DocumentReading
from mediamill.processors.document.scans import CheckpointMemory
from mediamill.processors.document.wording import document_facts, tell_document
from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.result import ProcessingResult

READING_SHARE = 0.75  # of the time limit; then what is there is handed over


class DocumentProcessor(BaseMediaProcessor):
    """Documents to text."""

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """Read the document and tell it."""
        del caption, media_metadata  # a document speaks for itself
        given = self.given
        limits = Limits(
            pages=self.settings.document_pages,
            ocr_pages=self.settings.document_ocr_pages,
            deadline=time.monotonic() + self.timeout_seconds * READING_SHARE,
        )
        known = given.checkpoint.get("scanned_pages") if isinstance(given.checkpoint, dict) else None
        memory = CheckpointMemory(known, lambda pages: given.report(checkpoint={"scanned_pages": pages}))
        reading = DocumentReading(given, limits, memory)
        document = reading.read(file_path, mime_type)
        content = tell_document(document)
        if content is None:
            raise EmptyMediaError("empty document: there is no text in it")
        files = {}
        if mime_type == PDF and given.payload.get("previews"):
            files = make_previews(file_path, given.folder)
        return ProcessingResult(
            content, models=reading.scans.models, facts=document_facts(document), files=files
        )
