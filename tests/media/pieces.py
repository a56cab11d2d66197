"""Files put together byte by byte: formats that nothing here can encode, and files that lie."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence


def box(name: bytes, *content: bytes, length: int | None = None) -> bytes:
    """An MP4 box, with a length that may lie."""
    inside = b"".join(content)
    return struct.pack(">I", 8 + len(inside) if length is None else length) + name + inside


def ftyp(*brands: bytes) -> bytes:
    """The first box of an MP4 file: its brand, and those that it is compatible with."""
    return box(b"ftyp", brands[0], b"\0\0\0\0", *brands)


def track(handler: bytes) -> bytes:
    """A track that has nothing but a handler."""
    return box(b"trak", box(b"tkhd", b"\0" * 84), box(b"mdia", box(b"hdlr", b"\0" * 8, handler, b"\0" * 13)))


def ebml(doc_type: bytes, *track_types: int) -> bytes:
    """A WebM or Matroska file that has nothing but tracks."""
    tracks = b"".join(element(b"\xae", element(b"\x83", bytes([kind]))) for kind in track_types)
    segment = element(b"\x18\x53\x80\x67", element(b"\x16\x54\xae\x6b", tracks))
    return element(b"\x1a\x45\xdf\xa3", element(b"\x42\x82", doc_type)) + segment


def element(name: bytes, content: bytes) -> bytes:
    """An EBML element with a length of eight bytes."""
    return name + struct.pack(">Q", 1 << 56 | len(content)) + content


def tiff(tags: Mapping[int, int | bytes], *, order: str = "<", extra: bytes = b"") -> bytes:
    """A TIFF header with one directory. Numbers are written as longs, bytes as text behind the directory."""
    behind = 8 + len(extra) + 2 + 12 * len(tags) + 4
    entries, texts = b"", b""
    for tag, value in sorted(tags.items()):
        if isinstance(value, bytes):
            entries += struct.pack(f"{order}HHII", tag, 2, len(value), behind + len(texts))
            texts += value
        else:
            entries += struct.pack(f"{order}HHII", tag, 4, 1, value)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    start = mark + struct.pack(f"{order}I", 8 + len(extra)) + extra
    return start + struct.pack(f"{order}H", len(tags)) + entries + b"\0" * 4 + texts


def zipped(entries: Mapping[str, str], *, stored: Sequence[str] = ()) -> bytes:
    """A zip file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in entries.items():
            archive.writestr(name, text, zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def ole(*streams: str) -> bytes:
    """An OLE file: header, one sector of allocation table, then the directory."""
    header = bytearray(512)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    struct.pack_into("<HHH", header, 26, 3, 0xFFFE, 9)
    struct.pack_into("<II", header, 44, 1, 1)
    struct.pack_into("<109I", header, 76, 0, *[0xFFFFFFFF] * 108)
    names = ("Root Entry", *streams)
    sectors = -(-len(names) // 4)
    chain = [0xFFFFFFFD, *range(2, 1 + sectors), 0xFFFFFFFE]
    table = struct.pack("<128I", *chain, *[0xFFFFFFFF] * (128 - len(chain)))
    directory = b"".join(
        name.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<H", 2 * len(name) + 2) + b"\0" * 62
        for name in names
    )
    return bytes(header) + table + directory.ljust(512 * sectors, b"\0")


def ogg_page(content: bytes, *, first: bool = True, serial: int = 1) -> bytes:
    """An Ogg page of less than 255 bytes (its checksum is not looked at)."""
    header = struct.pack("<4sBBQIII", b"OggS", 0, 2 if first else 0, 0, serial, 0, 0)
    return header + bytes([1, len(content)]) + content
