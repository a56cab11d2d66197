"""One document and the documents inside it: each read by the reader of its type."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path

from mediamill.media.errors import EmptyMediaError
from mediamill.media.sniff import sniff
from mediamill.processors.contract import ProcessorInput
from mediamill.processors.document.document_text import DocumentText, Limits, replace_characters
from mediamill.processors.document.eml import read_eml
from mediamill.processors.document.formats import MAIL, PDF, reader_of
from mediamill.processors.document.layout import PageText
from mediamill.processors.document.pdf import Render, read_pdf
from mediamill.processors.document.scans import PageMemory, Scans

NESTED = 2  # a document in a mail in a mail
ATTACHMENT_CHARACTERS = 200_000
REPORT_SECONDS = 1.0


class DocumentReading:
    """For one attempt. `memory`: its scanned pages, also those of earlier attempts."""

    def __init__(self, given: ProcessorInput, limits: Limits, memory: PageMemory) -> None:
        self._given, self._limits = given, limits
        self.scans = Scans(limits, memory)
        self._attachments = itertools.count(1)
        self._reported_at = 0.0

    def read(self, path: Path, mime_type: str, level: int = 0, key: str = "") -> DocumentText:
        """`key` names the document among those of the job, for the checkpoint."""
        limits = replace_characters(self._limits, ATTACHMENT_CHARACTERS) if level else self._limits
        if mime_type == PDF:
            return read_pdf(path, limits, partial(self._read_scan, key), self._on_page)
        if mime_type == MAIL:
            attached = partial(self._read_attachment, level + 1)
            return read_eml(path, limits, attached if level < NESTED else None)
        return reader_of(mime_type)(path, limits)

    def _read_scan(self, key: str, number: int, render: Render) -> PageText | None:
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
