"""TIFF, and the raw images of cameras that are TIFF inside, told apart by a few tags of the first directory."""

from __future__ import annotations

from mediamill.media.peek import Peek

ORDERS = {b"II*\x00": True, b"MM\x00*": False}  # is the byte order little?
BIG_TIFF = (b"II+\x00\x08\x00", b"MM\x00+\x00\x08")
SUBFILE_TYPE, COMPRESSION, MAKE, SUB_IFDS, DNG_VERSION = 254, 259, 271, 330, 50706
# A maker's name is no proof: its software writes plain TIFF too. A preview first, or its own compression, is.
PREVIEW = 1
MAKER_COMPRESSIONS = {32767, 32769, 32770, 34713, 34892, 65535}
MAKERS = (
    (b"NIKON", "image/x-nikon-nef"),
    (b"SONY", "image/x-sony-arw"),
    (b"PENTAX", "image/x-pentax-pef"),
    (b"RICOH", "image/x-pentax-pef"),
    (b"SAMSUNG", "image/x-samsung-srw"),
)
MOST_ENTRIES = 100


def look_at_tiff(peek: Peek) -> tuple[str, str] | None:
    """TIFF or a raw image."""
    head = peek.head
    if head.startswith(BIG_TIFF):
        return "image/tiff", "BigTIFF header"
    little = ORDERS.get(head[:4])
    if little is None or len(head) < 8:
        return None
    if head[8:11] == b"CR\x02":
        return "image/x-canon-cr2", "TIFF with CR 2"
    tags = _first_directory(peek, little)
    if DNG_VERSION in tags:
        return "image/x-adobe-dng", "TIFF with a DNGVersion tag"
    return _raw(peek, tags, little) or ("image/tiff", "TIFF header")


def _raw(peek: Peek, tags: dict[int, int], little: bool) -> tuple[str, str] | None:
    has_preview = SUB_IFDS in tags and _short(tags, SUBFILE_TYPE, peek, little) == PREVIEW
    if not has_preview and _short(tags, COMPRESSION, peek, little) not in MAKER_COMPRESSIONS:
        return None
    if MAKE not in tags:
        return None
    maker = peek.at(peek.number(tags[MAKE] + 8, 4, little=little), 16).upper()
    for name, mime_type in MAKERS:
        if maker.startswith(name):
            return mime_type, f"TIFF by {name.decode()} with raw data"
    return None


def _first_directory(peek: Peek, little: bool) -> dict[int, int]:
    """Tag -> where its entry is."""
    start = peek.number(4, 4, little=little)
    count = min(peek.number(start, 2, little=little), MOST_ENTRIES)
    places = (start + 2 + 12 * index for index in range(count))
    return {peek.number(place, 2, little=little): place for place in places}


def _short(tags: dict[int, int], tag: int, peek: Peek, little: bool) -> int:
    """The value of a tag that is a number, short or long."""
    if tag not in tags:
        return 0
    width = 2 if peek.number(tags[tag] + 2, 2, little=little) == 3 else 4
    return peek.number(tags[tag] + 8, width, little=little)
