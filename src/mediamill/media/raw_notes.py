"""Where the raw files of cameras keep their notes (EXIF): most are TIFF themselves, others hold it somewhere inside."""

from __future__ import annotations

import struct

from mediamill.media.exif import Exif

RAF_HEAD = b"FUJIFILMCCD-RAW "
RAF_JPEG_AT = 84  # where the offset and the length of its JPEG stand
CR3_HEAD = b"ftypcrx "
CANON = bytes.fromhex("85c0b687820f11e08111f4ce462b6a48")
MOST_BOXES = 100
MOST_SEGMENTS = 50


def read_notes(data: bytes) -> Exif:
    """Of a whole raw file."""
    if data.startswith(RAF_HEAD) and len(data) >= RAF_JPEG_AT + 8:
        start, length = struct.unpack_from(">II", data, RAF_JPEG_AT)
        return Exif(*_jpeg_notes(data[start : start + length]))
    if data[4:12] == CR3_HEAD:
        return _cr3_notes(data)
    return Exif(data)


def _jpeg_notes(jpeg: bytes) -> tuple[bytes, bytes]:
    """EXIF and XMP out of the segments before the picture."""
    exif, xmp, at = b"", b"", 2
    for _ in range(MOST_SEGMENTS):
        if jpeg[at : at + 1] != b"\xff" or len(jpeg) < at + 4 or jpeg[at + 1] == 0xDA:
            break
        length = int.from_bytes(jpeg[at + 2 : at + 4], "big")
        content = jpeg[at + 4 : at + 2 + length]
        if jpeg[at + 1] == 0xE1 and content.startswith(b"Exif\0\0"):
            exif = exif or content
        elif jpeg[at + 1] == 0xE1 and content.startswith(b"http://ns.adobe.com/xap"):
            xmp = xmp or content
        at += 2 + length
    return exif, xmp


def _cr3_notes(data: bytes) -> Exif:
    """Canon's box in `moov` holds each directory as a TIFF: CMT1 the image's, CMT2 the camera's, CMT4 the place's."""
    moov = _boxes(data, 0, len(data)).get(b"moov")
    own = _boxes(data, *moov).get(CANON) if moov else None
    if own is None:
        return Exif()
    parts = _boxes(data, *own)
    main, camera, place = (
        data[slice(*parts[name])] if name in parts else b"" for name in (b"CMT1", b"CMT2", b"CMT4")
    )
    return Exif.of_parts(main, camera, place)


def _boxes(data: bytes, start: int, end: int) -> dict[bytes, tuple[int, int]]:
    """Name, or the identifier of a box without one -> where its content is."""
    found: dict[bytes, tuple[int, int]] = {}
    for _ in range(MOST_BOXES):
        if start + 8 > end:
            break
        length, name = struct.unpack_from(">I4s", data, start)
        head = 8
        if length == 1 and start + 16 <= end:
            length, head = struct.unpack_from(">Q", data, start + 8)[0], 16
        stop = end if length == 0 else min(end, start + length)
        if name == b"uuid":
            name, head = data[start + head : start + head + 16], head + 16
        if stop < start + head:
            break
        found.setdefault(name, (start + head, stop))
        start = stop
    return found
