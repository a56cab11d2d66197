"""Zip and OLE files: Office documents, OpenDocument, EPUB and other packages, by the names of their entries.

Only the directory at the end and the first entry are read, never the packed data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mediamill.media.peek import Peek

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
END_WITHIN = 65_557  # the end record and its longest comment
DIRECTORY_BYTES = 256 * 1024
MOST_ENTRIES = 4000
PACKAGE_TYPE = re.compile(r"application/(epub\+zip|vnd\.oasis\.opendocument\.[a-z-]{1,32})")
OOXML = "application/vnd.openxmlformats-officedocument."
# What one of the entries is called -> mime type.
ENTRIES = {
    "word/document.xml": f"{OOXML}wordprocessingml.document",
    "word/document2.xml": f"{OOXML}wordprocessingml.document",
    "xl/workbook.xml": f"{OOXML}spreadsheetml.sheet",
    "xl/workbook.bin": "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
    "ppt/presentation.xml": f"{OOXML}presentationml.presentation",
    "AndroidManifest.xml": "application/vnd.android.package-archive",
    "META-INF/MANIFEST.MF": "application/java-archive",
}
FOLDERS = {
    "word/": f"{OOXML}wordprocessingml.document",
    "xl/": f"{OOXML}spreadsheetml.sheet",
    "ppt/": f"{OOXML}presentationml.presentation",
}

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Streams of an OLE file -> mime type. An Office file with a password is an OLE file around the encrypted package.
STREAMS = {
    "EncryptedPackage": "application/x-ooxml-protected",
    "WordDocument": "application/msword",
    "Workbook": "application/vnd.ms-excel",
    "Book": "application/vnd.ms-excel",
    "PowerPoint Document": "application/vnd.ms-powerpoint",
    "__properties_version1.0": "application/vnd.ms-outlook",
}
MOST_SECTORS = 64


def look_at_zip(peek: Peek) -> tuple[str, str] | None:
    """What kind of package a zip file is."""
    if not peek.head.startswith((LOCAL, END)):
        return None
    name, content = _first_entry(peek)
    if name == "mimetype" and (told := PACKAGE_TYPE.match(content)):
        return told[0], "zip whose first entry is its mime type"
    names = set(_central_names(peek)) or set(_local_names(peek))
    for entry, mime_type in ENTRIES.items():
        if entry in names:
            return mime_type, f"zip with {entry}"
    if "[Content_Types].xml" in names:
        for folder, mime_type in FOLDERS.items():
            if any(name.startswith(folder) for name in names):
                return mime_type, f"zip with [Content_Types].xml and {folder}"
    return "application/zip", "zip signature"


def _first_entry(peek: Peek) -> tuple[str, str]:
    """Name and first bytes of the first entry, as text."""
    name_length, extra_length = peek.number(26, 2, little=True), peek.number(28, 2, little=True)
    stored = peek.number(8, 2, little=True) == 0
    content = peek.at(30 + name_length + extra_length, 80) if stored else b""
    return peek.at(30, min(name_length, 255)).decode("latin-1"), content.decode("latin-1")


def _central_names(peek: Peek) -> Iterator[str]:
    """Names from the directory at the end of the file, if it is where the end record says."""
    tail_start = max(0, peek.size - END_WITHIN)
    tail = peek.at(tail_start, END_WITHIN)
    at = tail.rfind(END)
    if at < 0 or len(tail) < at + 22:
        return
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    start = int.from_bytes(tail[at + 16 : at + 20], "little")
    yield from _names(peek.at(start, min(length, DIRECTORY_BYTES)), CENTRAL, 28, 46)


def _local_names(peek: Peek) -> Iterator[str]:
    """Names from the entries in the head, for a file that was cut."""
    yield from _names(peek.head, LOCAL, 26, 30)


def _names(data: bytes, magic: bytes, length_at: int, name_at: int) -> Iterator[str]:
    at = data.find(magic)
    for _ in range(MOST_ENTRIES):
        if at < 0:
            return
        length = int.from_bytes(data[at + length_at : at + length_at + 2], "little")
        name = data[at + name_at : at + name_at + length]
        yield name.decode("utf-8", "replace").replace("\\", "/")
        at = data.find(magic, at + name_at + length)


def look_at_ole(peek: Peek) -> tuple[str, str] | None:
    """Which program wrote an OLE file, by the names in its directory."""
    if not peek.head.startswith(OLE):
        return None
    names = set(_ole_names(peek))
    for stream, mime_type in STREAMS.items():
        if stream in names:
            return mime_type, f"OLE file with a stream {stream}"
    return "application/x-ole-storage", "OLE signature"


def _ole_names(peek: Peek) -> Iterator[str]:
    """Walk the chain of directory sectors through the allocation table."""
    shift = peek.number(30, 2, little=True)
    if shift not in (9, 12):
        return
    width, sector = 1 << shift, peek.number(48, 4, little=True)
    for _ in range(MOST_SECTORS):
        entries = peek.at((sector + 1) * width, width)
        for at in range(0, len(entries) - 127, 128):
            length = int.from_bytes(entries[at + 64 : at + 66], "little")
            yield entries[at : at + max(0, min(length, 64) - 2)].decode("utf-16-le", "replace")
        table = sector // (width // 4)
        if not entries or table >= 109:  # only the tables that the header lists
            return
        table_sector = peek.number(76 + 4 * table, 4, little=True)
        sector = peek.number((table_sector + 1) * width + sector % (width // 4) * 4, 4, little=True)
