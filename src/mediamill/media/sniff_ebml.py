"""WebM and Matroska: EBML elements, told apart by document type and the types of the tracks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mediamill.media.peek import Peek

EBML, DOC_TYPE = 0x1A45DFA3, 0x4282
SEGMENT, TRACKS, TRACK_ENTRY, TRACK_TYPE = 0x18538067, 0x1654AE6B, 0xAE, 0x83
VIDEO, AUDIO = 1, 2


class Element(NamedTuple):
    """An element without its header: its id, and where its content starts and ends."""

    id: int
    start: int
    end: int


def look_at_ebml(peek: Peek) -> tuple[str, str] | None:
    """WebM or Matroska, and whether there is anything to see in it."""
    if not peek.head.startswith(b"\x1a\x45\xdf\xa3"):
        return None
    header = next(walk(peek, 0, peek.size), None)
    if header is None:
        return None
    doc_type = b""
    for element in walk(peek, header.start, header.end):
        if element.id == DOC_TYPE:
            doc_type = peek.at(element.start, min(element.end - element.start, 16)).rstrip(b"\x00")
    subtype = {b"webm": "webm", b"matroska": "x-matroska"}.get(doc_type)
    if subtype is None:
        return None
    types = _track_types(peek, header.end)
    major = "audio" if AUDIO in types and VIDEO not in types else "video"
    return f"{major}/{subtype}", f"EBML {doc_type.decode()}, track types: {sorted(types) or 'none found'}"


def _track_types(peek: Peek, start: int) -> set[int]:
    types: set[int] = set()
    for segment in _named(peek, SEGMENT, start, peek.size):
        for tracks in _named(peek, TRACKS, segment.start, segment.end):
            for entry in _named(peek, TRACK_ENTRY, tracks.start, tracks.end):
                types.update(
                    peek.number(t.start, 1) for t in _named(peek, TRACK_TYPE, entry.start, entry.end)
                )
            return types
    return types


def _named(peek: Peek, wanted: int, start: int, end: int) -> Iterator[Element]:
    return (element for element in walk(peek, start, end) if element.id == wanted)


def walk(peek: Peek, start: int, end: int) -> Iterator[Element]:
    """The elements of one level. A length that is unknown or does not fit reaches to the parent's end."""
    while start < end:
        header = peek.at(start, 12)
        id_width = _width(header, 0)
        length_width = _width(header, id_width)
        if not 1 <= id_width <= 4 or length_width == 0:
            return
        body = start + id_width + length_width
        bits = 7 * length_width
        length = int.from_bytes(header[id_width : id_width + length_width], "big") & ((1 << bits) - 1)
        until = end if length == (1 << bits) - 1 else min(body + length, end)
        if until < body:
            return
        yield Element(int.from_bytes(header[:id_width], "big"), body, until)
        start = until


def _width(header: bytes, at: int) -> int:
    """How many bytes a number takes: one more than the zero bits that it starts with. 0: there is none."""
    if at >= len(header) or header[at] == 0:
        return 0
    width = 9 - header[at].bit_length()
    return width if at + width <= len(header) else 0
