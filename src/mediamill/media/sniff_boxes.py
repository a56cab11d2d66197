"""The family of MP4 (ISO base media, QuickTime, 3GP, HEIF, AVIF): boxes in boxes, told apart by brand and tracks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mediamill.media.peek import Peek

HEIF_BRANDS = {
    b"heic",
    b"heix",
    b"heim",
    b"heis",
    b"hevc",
    b"hevx",
    b"hevm",
    b"hevs",
    b"mif1",
    b"msf1",
    b"mif2",
}
AVIF_BRANDS = {b"avif", b"avis"}
AUDIO_BRANDS = {b"M4A ", b"M4B ", b"M4P ", b"F4A ", b"F4B "}  # their pictures are covers and chapter marks
# QuickTime before 2001 has no ftyp: one of these comes first, and the tracks must be found.
OLD_FIRST = {b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"}
MOST_TRACKS = 64


class Box(NamedTuple):
    """A box without its header: its four letters, and where its content starts and ends."""

    name: bytes
    start: int
    end: int


def look_at_boxes(peek: Peek) -> tuple[str, str] | None:
    """By the brands in `ftyp`, then by the handlers of the tracks in `moov`, wherever that is."""
    first = next(walk(peek, 0, peek.size), None)
    if first is None or (first.name != b"ftyp" and first.name not in OLD_FIRST):
        return None
    if first.name != b"ftyp":
        tracks = find_tracks(peek)
        return _with_tracks("quicktime", tracks, "no ftyp") if tracks else None
    brands = peek.at(first.start, min(first.end - first.start, 256))
    major = brands[:4]
    others = {brands[at : at + 4] for at in range(8, len(brands) - 3, 4)}
    return _image(major, others) or _film(peek, major)


def _image(major: bytes, others: set[bytes]) -> tuple[str, str] | None:
    told = f"ftyp {_printable(major)}"
    if major in AVIF_BRANDS or (major in HEIF_BRANDS and others & AVIF_BRANDS):
        return "image/avif", told
    if major in HEIF_BRANDS:
        return "image/heic", told
    if major == b"crx ":
        return "image/x-canon-cr3", told
    return None


def _film(peek: Peek, major: bytes) -> tuple[str, str]:
    tracks = find_tracks(peek)
    told = f"ftyp {_printable(major)}"
    if major in AUDIO_BRANDS and (b"soun" in tracks or not tracks):
        return "audio/mp4", told
    if major == b"qt  ":
        return _with_tracks("quicktime", tracks, told)
    return _with_tracks("3gpp" if major[:2] == b"3g" else "mp4", tracks, told)


def _with_tracks(subtype: str, tracks: set[bytes], told: str) -> tuple[str, str]:
    """Sound alone is audio; what has no track that we could find is taken for a video."""
    names = ", ".join(sorted(_printable(track) for track in tracks)) or "none found"
    only_sound = b"soun" in tracks and b"vide" not in tracks
    return f"{'audio' if only_sound else 'video'}/{subtype}", f"{told}, tracks: {names}"


def find_tracks(peek: Peek) -> set[bytes]:
    """The handler types of all tracks: vide, soun, text …"""
    found: set[bytes] = set()
    for moov in _named(peek, b"moov", 0, peek.size):
        for count, trak in enumerate(_named(peek, b"trak", moov.start, moov.end)):
            if count == MOST_TRACKS:
                break
            for mdia in _named(peek, b"mdia", trak.start, trak.end):
                found.update(peek.at(h.start + 8, 4) for h in _named(peek, b"hdlr", mdia.start, mdia.end))
        break
    return found - {b""}


def _named(peek: Peek, name: bytes, start: int, end: int) -> Iterator[Box]:
    return (box for box in walk(peek, start, end) if box.name == name)


def walk(peek: Peek, start: int, end: int) -> Iterator[Box]:
    """The boxes of one level. A length that does not fit ends the walk at the parent's end."""
    while start + 8 <= end:
        header = peek.at(start, 16)
        if len(header) < 8:
            return
        length, body = int.from_bytes(header[:4], "big"), start + 8
        if length == 1:
            length, body = int.from_bytes(header[8:16], "big"), start + 16
        until = end if length == 0 else min(start + length, end)
        if until < body:
            return
        yield Box(header[4:8], body, until)
        start = until


def _printable(name: bytes) -> str:
    return name.decode("ascii", "backslashreplace").strip()
