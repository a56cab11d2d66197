"""Scanned pages read by OCR. What an earlier attempt has read is in the checkpoint and not read again."""

from __future__ import annotations

from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.document.document_text import Limits
from mediamill.processors.document.layout import arrange
from mediamill.processors.document.pdf import Render
from mediamill.processors.models import choose
from mediamill.processors.models.contract import TextLine
from mediamill.processors.reading_order import Piece

CHECKPOINT_CHARACTERS = 150_000  # UTF-8 and JSON may make six bytes of one


class Scans:
    """The OCR of one job: the document and its attachments share one limit."""

    def __init__(self, given: ProcessorInput, limits: Limits) -> None:
        self._given, self._limits = given, limits
        self._known = _known_pages(given.checkpoint)
        self._room = CHECKPOINT_CHARACTERS - sum(map(len, self._known.values()))
        self._pages = 0
        self.models: list[str] = []

    def read(self, key: str, render: Render) -> str | None:
        """The text of a page; None when no more may be read."""
        if self._pages >= self._limits.ocr_pages:
            return None
        if key in self._known:
            self._pages += 1
            return self._known[key]
        if self._limits.late:
            return None
        self._pages += 1
        text = self._look(render)
        if len(text) <= self._room:
            self._room -= len(text)
            self._known[key] = text
            self._given.report(checkpoint={"scanned_pages": self._known})
        return text

    def _look(self, render: Render) -> str:
        reader = choose.text_reader()
        if reader.model not in self.models:
            self.models.append(reader.model)
        return arrange([_piece(line) for line in reader.read(render())])


def _piece(line: TextLine) -> Piece:
    return Piece(line.text, *line.box)


def _known_pages(checkpoint: Any) -> dict[str, str]:
    pages = checkpoint.get("scanned_pages") if isinstance(checkpoint, dict) else None
    if not isinstance(pages, dict):
        return {}
    return {key: text for key, text in pages.items() if isinstance(key, str) and isinstance(text, str)}
