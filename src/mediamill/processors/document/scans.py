"""Scanned pages read by OCR. What an earlier attempt has read is in the checkpoint and not read again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from mediamill.processors.document.document_text import Limits
from mediamill.processors.document.layout import PageLayout, PageText, arrange
from mediamill.processors.document.pdf import Render
from mediamill.processors.models import choose
from mediamill.processors.models.contract import Pixels, TextLine
from mediamill.processors.reading_order import Piece

CHECKPOINT_BYTES = 750_000  # of JSON; the rest of what a checkpoint may have is for others
Save = Callable[[dict[str, Any]], None]


class Scans:
    """The OCR of one job: the document and its attachments share one limit.

    `known`: what `save` was given in an earlier attempt: a page is its text, or its pieces with their places.
    """

    def __init__(self, limits: Limits, known: Any, save: Save) -> None:
        self._limits, self._save = limits, save
        self._known: dict[str, Any] = dict(known) if isinstance(known, dict) else {}
        self._room = CHECKPOINT_BYTES - len(json.dumps(self._known))
        self._pages = 0
        self.models: list[str] = []

    def read(self, key: str, render: Render) -> PageText | None:
        """The text of a page; None when no more may be read."""
        if self._pages >= self._limits.ocr_pages:
            return None
        if (known := _known_page(self._known.get(key))) is not None:
            self._pages += 1
            return known
        if self._limits.late:
            return None
        self._pages += 1
        page = self._look(render)
        self._keep(key, page)
        return page

    def _look(self, render: Render) -> PageText:
        reader = choose.text_reader()
        if reader.model not in self.models:
            self.models.append(reader.model)
        pixels = render()
        pieces = [_piece(line) for line in reader.read(pixels)]
        return PageText(arrange(pieces), _layout(pieces, pixels) if self._limits.pieces else None)

    def _keep(self, key: str, page: PageText) -> None:
        told = _told_layout(page.layout) if page.layout else page.text
        size = len(json.dumps({key: told}))
        if size <= self._room:
            self._room -= size
            self._known[key] = told
            self._save(self._known)


def _piece(line: TextLine) -> Piece:
    return Piece(line.text, *line.box)


def _layout(pieces: list[Piece], pixels: Pixels) -> PageLayout:
    height, width = pixels.shape[:2]
    return PageLayout(tuple(pieces), width, height, scanned=True)


def _told_layout(layout: PageLayout) -> dict[str, Any]:
    pieces = [
        [piece.text, *map(round, (piece.left, piece.top, piece.right, piece.bottom))]
        for piece in layout.pieces
    ]
    return {"size": [layout.width, layout.height], "pieces": pieces}


def _known_page(told: Any) -> PageText | None:
    if isinstance(told, str):
        return PageText(told)
    try:
        width, height = map(_size, told["size"])
        pieces = [Piece(str(text), *map(_size, box)) for text, *box in told["pieces"]]
    except (TypeError, KeyError, ValueError):
        return None
    return PageText(arrange(pieces), PageLayout(tuple(pieces), width, height, scanned=True))


def _size(number: Any) -> float:
    if isinstance(number, int | float) and math.isfinite(number):
        return float(number)
    raise ValueError("no number")
