"""Scanned pages read by OCR. What an earlier attempt has read is kept and not read again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Protocol

from mediamill.processors.document.document_text import Limits
from mediamill.processors.document.layout import PageLayout, PageText, arrange
from mediamill.processors.document.pdf import Render
from mediamill.processors.models import choose
from mediamill.processors.models.contract import Pixels, TextLine
from mediamill.processors.reading_order import Piece

CHECKPOINT_BYTES = 750_000  # of JSON; the rest of what a checkpoint may have is for others
BLANK = 24  # of 255: a page whose lightest and darkest places differ by less shows nothing


class PageMemory(Protocol):
    """What was read of the pages of a job. A page is its text, or its pieces with their places."""

    def known(self, key: str) -> Any:
        """What was saved in this attempt or an earlier one; None if the page was not read."""

    def begin(self, key: str) -> bool:
        """The page is about to be read; False: it is left out, because earlier attempts ended there."""

    def save(self, key: str, told: Any) -> None:
        """The page has been read."""


class CheckpointMemory:
    """Pages in the checkpoint of a job, as long as there is room. `known`: what `save` was given before."""

    def __init__(self, known: Any, save: Callable[[dict[str, Any]], None]) -> None:
        self._known: dict[str, Any] = dict(known) if isinstance(known, dict) else {}
        self._room, self._save = CHECKPOINT_BYTES - len(json.dumps(self._known)), save

    def known(self, key: str) -> Any:
        return self._known.get(key)

    def begin(self, key: str) -> bool:  # noqa: ARG002
        return True

    def save(self, key: str, told: Any) -> None:
        size = len(json.dumps({key: told}))
        if size <= self._room:
            self._room -= size
            self._known[key] = told
            self._save(self._known)


class Scans:
    """The OCR of one job: the document and its attachments share one limit."""

    def __init__(self, limits: Limits, memory: PageMemory) -> None:
        self._limits, self._memory = limits, memory
        self._pages = 0
        self.models: list[str] = []

    def read(self, key: str, render: Render) -> PageText | None:
        """The text of a page; None when it is not to be read."""
        if self._pages >= self._limits.ocr_pages:
            return None
        if (known := _known_page(self._memory.known(key))) is not None:
            self._pages += 1
            return known
        if self._limits.late or not self._memory.begin(key):
            return None
        self._pages += 1
        page = self._look(render)
        self._memory.save(key, _told_layout(page.layout) if page.layout else page.text)
        return page

    def _look(self, render: Render) -> PageText:
        pixels = render()
        if int(pixels.max()) - int(pixels.min()) < BLANK:
            return PageText("")
        reader = choose.text_reader()
        if reader.model not in self.models:
            self.models.append(reader.model)
        pieces = [_piece(line) for line in reader.read(pixels)]
        return PageText(arrange(pieces), _layout(pieces, pixels) if self._limits.pieces else None)


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
