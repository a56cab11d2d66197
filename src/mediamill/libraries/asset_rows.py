"""New assets as PostgreSQL's binary COPY wants them: packed here, read there without parsing, a million at a time.

Packed by columns, thousands of files at once: row by row, Python would take longer for it than for reading the folder.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from io import BytesIO

import numpy as np

from mediamill.db.connection import Connection
from mediamill.libraries.walk import USUAL_IMAGES, Listing, key_of, kind_of
from mediamill.staging.file_names import to_text

COLUMNS = ("library", "folder", "type", "mtime_ns", "size", "inode", "shown_at", "rel_path")
_FILE_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_FILE_END = struct.pack(">h", -1)
_NUMBERS = ("mtime_ns", "size", "inode")
_FORMATS = {"library": ">i4", "type": "S5"} | dict.fromkeys(("folder", "shown_at", *_NUMBERS), ">i8")
# A row: how many columns it has; then each, after its length. The path comes last, and only its length is fixed.
_ROW = np.dtype(
    [("columns", ">i2")]
    + [
        (f"{name}{part}", how)
        for name in COLUMNS[:-1]
        for part, how in (("_length", ">i4"), ("", _FORMATS[name]))
    ]
    + [("path_length", ">i4")]
)
_EMPTY_ROW = np.zeros((), _ROW)
_EMPTY_ROW["columns"], _EMPTY_ROW["type"] = len(COLUMNS), b"image"
for _name in COLUMNS[:-1]:
    _EMPTY_ROW[f"{_name}_length"] = _ROW[_name].itemsize
_EPOCH_MICROSECONDS = 946_684_800_000_000  # PostgreSQL counts from the year 2000

Found = Sequence[tuple[int, Listing]]  # the folder's id, and what is in it


def pack_assets(library: int, found: Found) -> bytes:
    """Of all files. Until more is known, they are shown at the time they were last changed."""
    paths = _paths(found)
    rows = np.frombuffer(bytearray(_EMPTY_ROW.tobytes() * len(paths)), _ROW)
    rows["library"] = library
    rows["folder"] = np.repeat([folder for folder, _ in found], [listing.count for _, listing in found])
    for place, name in enumerate(_NUMBERS):
        rows[name] = np.frombuffer(b"".join(listing.numbers[place] for _, listing in found), np.int64)
    rows["shown_at"] = rows["mtime_ns"] // 1000 - _EPOCH_MICROSECONDS
    rows["type"][_videos(found)] = b"video"
    rows["path_length"] = np.fromiter(map(len, paths), np.int32, len(paths))
    parts = [_FILE_HEAD, *[b""] * (2 * len(paths)), _FILE_END]
    parts[1:-1:2], parts[2:-1:2] = rows.view(f"V{_ROW.itemsize}").tolist(), paths
    return b"".join(parts)


def _paths(found: Found) -> list[bytes]:
    """No name holds a zero byte: split there, thousands are one text until the end."""
    texts = []
    for _, listing in found:
        inside = key_of(listing.rel_path)
        texts.append(inside + to_text(listing.names).replace("/", f"\0{inside}"))
    return "\0".join(texts).encode().split(b"\0")


def _videos(found: Found) -> list[int]:
    """Their places."""
    names = "/".join([listing.names for _, listing in found]).split("/")
    return [
        place
        for place, name in enumerate(names)
        if name[-4:] not in USUAL_IMAGES and kind_of(name) == "video"
    ]


async def copy_assets(connection: Connection, library: int, found: Found) -> int:
    """Write them; how many. They must be new: a path that is there already ends the transaction."""
    found = [one for one in found if one[1].count]
    if not found:
        return 0
    source = BytesIO(pack_assets(library, found))
    said = await connection.copy_to_table("assets", source=source, columns=COLUMNS, format="binary")
    return int(said.rsplit(" ", 1)[-1])
