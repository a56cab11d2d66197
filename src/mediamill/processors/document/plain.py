"""Files that are text already: the encoding is found, nothing is interpreted."""

from __future__ import annotations

import codecs
from pathlib import Path

from mediamill.processors.document.document_text import DocumentText, Limits, Part, TextRoom

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
PROBE_BYTES = 4096


def find_encoding(data: bytes) -> str:
    """The encoding of a text by its bytes: a mark, zeros, valid UTF-8, else the western code page."""
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return name
    probe = data[:PROBE_BYTES]
    even, odd = probe[0::2].count(0), probe[1::2].count(0)
    if max(even, odd) > len(probe) // 8 and max(even, odd) > 4 * min(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)  # the end may be in the middle of a character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def decode_text(data: bytes, encoding: str | None = None) -> str:
    """The text of a file, with line ends as `\\n` and without control characters."""
    text = data.decode(encoding or find_encoding(data), "replace")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.translate(CONTROLS)


CONTROLS = {code: None for code in range(32) if chr(code) not in "\t\n\f"} | {12: "\n", 127: None}


def read_bytes(path: Path, limits: Limits, document: DocumentText) -> bytes:
    """The file, or its beginning if it is very long."""
    with path.open("rb") as stream:
        data = stream.read(limits.text_bytes)
    if more := path.stat().st_size - len(data):
        document.warn(f"only the first {len(data):,} bytes were read, {more:,} were not")
    return data


def read_plain(path: Path, limits: Limits, format_name: str = "txt") -> DocumentText:
    """Text as it is: txt, md, csv, json, xml."""
    document = DocumentText(format_name)
    text = decode_text(read_bytes(path, limits, document))
    if len(text) > limits.characters:
        document.warn("the text is too long; its end was left out")
    document.parts.append(Part("", TextRoom(limits).take(text)))
    return document
