"""The text layer of a PDF page: PDFium's characters and boxes as pieces for the layout."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from mediamill.processors.document.layout import PageLayout, PageText, arrange
from mediamill.processors.document.plain import CONTROLS
from mediamill.processors.reading_order import Piece

WORD = re.compile(r"[^\s\ufffe]+")
LINE = re.compile(r"[^\r\n]+")
MAX_CHARACTERS = 300_000  # of one page
MAX_WORDS = 30_000  # whose places are looked at
HYPHEN = "\x02"  # PDFium's mark for a word that goes on in the next line
UNITS = 10  # of a layout in a point: PDFium tells places as whole numbers


def page_text(page: pdfium.PdfPage, *, with_layout: bool = False) -> PageText:
    """The text of a page in reading order."""
    textpage = page.get_textpage()
    try:
        text = _characters(textpage)
        pieces = _Boxes(textpage, page.get_height()).pieces(text)
    finally:
        textpage.close()
    if pieces is None:
        return PageText(_clean(text.replace(HYPHEN, "-\n")))
    layout = _layout(page, pieces) if with_layout and pieces else None
    return PageText(_clean(arrange(pieces)), layout)


def _layout(page: pdfium.PdfPage, pieces: list[Piece]) -> PageLayout:
    """The pieces where they are when the page is drawn: turned and cropped as it says."""
    width, height = (max(1, min(round(side * UNITS), 1_000_000)) for side in page.get_size())
    x, y = ctypes.c_int(), ctypes.c_int()

    def drawn(left: float, top: float) -> tuple[int, int]:
        place = (left, page.get_height() - top)
        pdfium_c.FPDF_PageToDevice(page, 0, 0, width, height, 0, *place, ctypes.byref(x), ctypes.byref(y))
        return x.value, y.value

    placed = []
    for piece in pieces:
        (left, top), (right, bottom) = drawn(piece.left, piece.top), drawn(piece.right, piece.bottom)
        edges = min(left, right), min(top, bottom), max(left, right), max(top, bottom)
        placed.append(Piece(_clean(piece.text), *edges))
    return PageLayout(tuple(placed), width, height)


def _clean(text: str) -> str:
    return text.replace("\r\n", "\n").replace(HYPHEN, "-").translate(CONTROLS).strip("\n")


def _characters(textpage: Any) -> str:
    """One character per index of PDFium."""
    count = min(textpage.count_chars(), MAX_CHARACTERS)
    text: str = textpage.get_text_range(0, count) if count > 0 else ""
    if len(text) == count:
        return text
    codes = (pdfium_c.FPDFText_GetUnicode(textpage, index) for index in range(count))
    return "".join(
        chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd" for code in codes
    )


class _Boxes:
    """Where the characters of a page are, with the height of their font."""

    def __init__(self, textpage: Any, page_height: float) -> None:
        self._textpage, self._page_height = textpage, page_height
        self._rectangle = pdfium_c.FS_RECTF()
        self._pointer = ctypes.byref(self._rectangle)

    def pieces(self, text: str) -> list[Piece] | None:
        """Stretches of words with no wide gap; None if the page is not to be ordered by us."""
        pieces: list[Piece] = []
        words = 0
        for line in LINE.finditer(text):
            first, last = line.start(), line.end() - 1
            if self._is_one_object(first, last):
                pieces.append(self._piece(line[0].strip(), first, last))
                continue
            run: list[Piece] = []
            for word in self._words(text, line):
                words += 1
                if words > MAX_WORDS:
                    return None
                self._add(word, run, pieces)
            if run:
                pieces.append(_joined(run))
        pieces = [piece for piece in pieces if piece.text]
        upright = sum(1 for piece in pieces if _is_upright(piece))
        return pieces if upright * 2 >= len(pieces) else None

    def _is_one_object(self, first: int, last: int) -> bool:
        """Were both characters drawn by one operator? Then nothing is to be looked for between them."""
        return self._object(first) == self._object(last) is not None

    def _object(self, index: int) -> int | None:
        return ctypes.cast(pdfium_c.FPDFText_GetTextObject(self._textpage, index), ctypes.c_void_p).value

    def _words(self, text: str, line: re.Match[str]) -> Iterator[Piece]:
        """PDFium sometimes puts two words on two lines together; such a word is taken apart."""
        for word in WORD.finditer(text, line.start(), line.end()):
            whole = self._piece(word[0], word.start(), word.end() - 1)
            top, _, bottom = self._box(word.start())[1:]
            if whole.height <= 1.5 * (bottom - top):
                yield whole
                continue
            run: list[Piece] = []
            for index in range(word.start(), word.end()):
                letter = self._piece(text[index], index, index)
                if run and abs(letter.bottom - run[-1].bottom) > 0.7 * letter.height:
                    yield _joined(run, "")
                    run = []
                run.append(letter)
            yield _joined(run, "")

    def _piece(self, text: str, first: int, last: int) -> Piece:
        one, other = self._box(first), self._box(last)
        return Piece(
            text, min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])
        )

    def _box(self, index: int) -> tuple[float, float, float, float]:
        found = pdfium_c.FPDFText_GetLooseCharBox(self._textpage, index, self._pointer)
        box = self._rectangle
        if not found:
            return 0.0, 0.0, 0.0, 0.0
        return box.left, self._page_height - box.top, box.right, self._page_height - box.bottom

    @staticmethod
    def _add(word: Piece, run: list[Piece], pieces: list[Piece]) -> None:
        if run:
            before = run[-1]
            gap = word.left - before.right
            same_height = abs(word.bottom - before.bottom) < 0.7 * max(word.height, before.height)
            wide = gap > 0.8 * before.height or gap < -1.5 * before.height
            if (wide or not same_height) and word.height > 0.2:
                pieces.append(_joined(run))
                run.clear()
        run.append(word)


def _joined(words: list[Piece], between: str = " ") -> Piece:
    text = between.join(word.text for word in words)
    return Piece(
        text,
        min(word.left for word in words),
        min(word.top for word in words),
        max(word.right for word in words),
        max(word.bottom for word in words),
    )


def _is_upright(piece: Piece) -> bool:
    return len(piece.text) < 4 or piece.right - piece.left > piece.height
