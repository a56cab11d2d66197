"""PDF files: the text layer of each page, and OCR for pages that are pictures."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from mediamill.media.errors import DamagedMediaError, ProtectedMediaError
from mediamill.processors.document.document_text import (
    DocumentText,
    Limits,
    Part,
    TextRoom,
    plural,
    until_full,
)
from mediamill.processors.document.layout import PageText
from mediamill.processors.document.pdf_text import page_text
from mediamill.processors.models.contract import Pixels

OCR_DPI = 200
RENDER_PIXELS = 4_000_000
RENDER_SIDE = 4_000
PICTURE_PIXELS = 150_000_000  # a larger picture inside a page is not decoded
MAX_OBJECTS = 2_000  # of a page that are looked at
FEW_LETTERS = 15
BIG_PICTURE = 0.4  # of the page
Render = Callable[[], Pixels]
ReadScan = Callable[[int, Render], PageText | None]  # page number and picture in; None: it is left out
OnPage = Callable[[int, int], None]
DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?")


def read_pdf(
    path: Path, limits: Limits, read_scan: ReadScan | None = None, on_page: OnPage | None = None
) -> DocumentText:
    """A PDF file; `read_scan` reads pages that have no text of their own."""
    document = DocumentText("pdf")
    pdf = open_pdf(path)
    try:
        document.count = len(pdf)
        document.describe(_metadata(pdf))
        reader = _Reader(pdf, document, read_scan, limits.pieces)
        room = TextRoom(limits)
        document.pages_read = 0
        with until_full(document):
            for index in range(min(document.count, limits.pages)):
                if limits.late:
                    document.warn("the time did not suffice for all pages")
                    break
                page = reader.page(index)
                document.parts.append(Part(f"Page {index + 1}", room.take(page.text), page.layout))
                document.pages_read += 1
                if on_page:
                    on_page(index + 1, min(document.count, limits.pages))
        reader.finish()
        document.unread = [*reader.unread, *range(document.pages_read + 1, document.count + 1)]
    finally:
        pdf.close()
    return document


def open_pdf(path: Path) -> pdfium.PdfDocument:
    """The file; the empty password is tried."""
    try:
        pdf = pdfium.PdfDocument(path.open("rb"), autoclose=True)
    except pdfium.PdfiumError as error:
        code = getattr(error, "err_code", None)
        if code in (pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY):
            raise ProtectedMediaError("the PDF file is protected by a password") from error
        if code == pdfium_c.FPDF_ERR_SUCCESS:
            raise DamagedMediaError("the PDF file is damaged: it has no pages") from error
        raise DamagedMediaError("the PDF file is damaged: it cannot be opened as a PDF") from error
    if pdf.get_formtype() != pdfium_c.FORMTYPE_NONE:
        pdf.init_forms()
    return pdf


class _Reader:
    """Page after page."""

    def __init__(
        self, pdf: pdfium.PdfDocument, document: DocumentText, read_scan: ReadScan | None, pieces: int
    ) -> None:
        self._pdf, self._document, self._read_scan = pdf, document, read_scan
        self._pieces_left = pieces
        self._damaged = 0
        self.unread: list[int] = []

    def page(self, index: int) -> PageText:
        try:
            page = open_page(self._pdf, index)
            try:
                found = self._text(page, index)
            finally:
                page.close()
        except pdfium.PdfiumError:
            self._damaged += 1
            self.unread.append(index + 1)
            return PageText("")
        self._pieces_left -= len(found.layout.pieces) if found.layout else 0
        return found

    def _text(self, page: pdfium.PdfPage, index: int) -> PageText:
        found = page_text(page, with_layout=self._pieces_left > 0)
        if not self._is_scan(page, found.text):
            return found
        self._document.pictures += 1
        scanned = self._read_scan(index + 1, lambda: render(page)) if self._read_scan else None
        if scanned is None:
            self.unread.append(index + 1)
            return found
        self._document.ocr_pages += 1
        return scanned if len(scanned.text) >= len(found.text) else found

    def _is_scan(self, page: pdfium.PdfPage, text: str) -> bool:
        """Nothing or nearly nothing to read, but something to see; or letters that mean nothing."""
        letters = sum(char.isalnum() for char in text[:2_000])
        strange = sum(char == "\ufffd" or "\ue000" <= char <= "\uf8ff" for char in text[:2_000])
        if letters >= FEW_LETTERS and strange < letters:
            return False
        count, pictures, covered = self._objects(page)
        if pictures is None:
            self._document.warn(f"a picture on page {page_number(self._document)} is too large to be read")
            return False
        return covered >= BIG_PICTURE or (letters == 0 and count > 0) or strange > FEW_LETTERS

    @staticmethod
    def _objects(page: pdfium.PdfPage) -> tuple[int, int | None, float]:
        """How many things are on the page, how many of them pictures (None: one is huge), and their share."""
        count = pictures = 0
        area = max(page.get_width() * page.get_height(), 1.0)
        covered = 0.0
        for item in itertools.islice(page.get_objects(max_depth=4), MAX_OBJECTS):
            count += 1
            if isinstance(item, pdfium.PdfImage):
                width, height = item.get_px_size()
                if width * height > PICTURE_PIXELS:
                    return count, None, 0.0
                left, bottom, right, top = item.get_bounds()
                pictures += 1
                covered += abs((right - left) * (top - bottom)) / area
        return count, pictures, covered

    def finish(self) -> None:
        """Say what is missing."""
        if self._damaged:
            self._document.warn(f"{plural(self._damaged, 'page')} damaged")


def open_page(pdf: pdfium.PdfDocument, index: int) -> pdfium.PdfPage:
    """A page; what was filled into a form becomes a part of it."""
    page = pdf.get_page(index)
    if pdf.formenv is not None:
        page.flatten()
        page.close()
        page = pdf.get_page(index)
    return page


def page_number(document: DocumentText) -> int:
    """The page that is being read."""
    return len(document.parts) + 1


def render(page: pdfium.PdfPage, dpi: float = OCR_DPI, side: int = RENDER_SIDE) -> Pixels:
    """The page as pixels, however large it says it is."""
    width, height = page.get_size()
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        raise pdfium.PdfiumError("the page has no size")
    scale = min(dpi / 72, math.sqrt(RENDER_PIXELS / (width * height)), side / max(width, height))
    bitmap = page.render(scale=scale, rev_byteorder=True, no_smoothtext=False)
    try:
        pixels: Any = bitmap.to_numpy()
        if pixels.ndim == 2:
            pixels = pixels[:, :, None]
        if pixels.shape[2] == 1:
            pixels = np.repeat(pixels, 3, axis=2)
        return np.ascontiguousarray(pixels[:, :, :3])
    finally:
        bitmap.close()


def draw_pages(path: Path, numbers: Sequence[int], side: int) -> Iterator[tuple[int, Pixels | None]]:
    """Pictures of pages, at most `side` pixels wide and high; None for what cannot be drawn."""
    pdf = open_pdf(path)
    try:
        for number in numbers:
            yield number, _draw(pdf, number - 1, side)
    finally:
        pdf.close()


def _draw(pdf: pdfium.PdfDocument, index: int, side: int) -> Pixels | None:
    try:
        page = open_page(pdf, index)
        try:
            return None if _Reader._objects(page)[1] is None else render(page, dpi=300, side=side)
        finally:
            page.close()
    except pdfium.PdfiumError:
        return None


def _metadata(pdf: pdfium.PdfDocument) -> dict[str, str]:
    keys = {"title": "Title", "author": "Author", "created": "CreationDate", "modified": "ModDate"}
    fields = {name: str(pdf.get_metadata_value(key))[:2_000] for name, key in keys.items()}
    for name in ("created", "modified"):
        found = DATE.match(fields[name].strip())
        year, month, day, hour, minute = found.groups() if found else (None,) * 5
        fields[name] = "-".join(filter(None, (year, month, day))) + (f" {hour}:{minute}" if minute else "")
    return fields
