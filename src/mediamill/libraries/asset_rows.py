"""New assets as PostgreSQL's binary COPY wants them: packed here, read there without parsing, a million at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from io import BytesIO

from mediamill.db.connection import Connection
from mediamill.libraries.walk import File, key_of, kind_of
from mediamill.staging.file_names import to_text

COLUMNS = ("library", "folder", "rel_path", "type", "mtime_ns", "size", "inode", "shown_at")
_FILE_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_FILE_END = struct.pack(">h", -1)
_ROW_HEAD = struct.Struct(">hiiiq")  # how many columns; then each with its length: library, folder
_LENGTH = struct.Struct(">i")
_ROW_END = struct.Struct(">iqiqiqiq")
_TYPES: dict[str | None, bytes] = {
    kind: _LENGTH.pack(len(kind)) + kind.encode() for kind in ("image", "video")
}
_EPOCH_MICROSECONDS = 946_684_800_000_000  # PostgreSQL counts from the year 2000


def pack_assets(library: int, folder: int, rel_path: str, files: Iterable[File]) -> bytes:
    """The rows of files of one folder. Until more is known, they are shown at the time they were last changed."""
    head = _ROW_HEAD.pack(len(COLUMNS), 4, library, 8, folder)
    inside, pack_length, pack_end = key_of(rel_path).encode(), _LENGTH.pack, _ROW_END.pack
    parts: list[bytes] = []
    for name, mtime_ns, size, inode in files:
        path = inside + (name if name.isascii() else to_text(name)).encode()
        shown_at = mtime_ns // 1000 - _EPOCH_MICROSECONDS
        end = pack_end(8, mtime_ns, 8, size, 8, inode, 8, shown_at)
        parts += head, pack_length(len(path)), path, _TYPES[kind_of(name)], end
    return b"".join(parts)


async def copy_assets(connection: Connection, rows: Iterable[bytes]) -> int:
    """Write them; how many. They must be new: a path that is there already ends the transaction."""
    source = BytesIO(b"".join((_FILE_HEAD, *rows, _FILE_END)))
    said = await connection.copy_to_table("assets", source=source, columns=COLUMNS, format="binary")
    return int(said.rsplit(" ", 1)[-1])
