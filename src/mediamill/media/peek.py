"""Bounded looks into a file that is not trusted: a budget of bytes and of looks, then there is nothing more to see."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from mediamill.media.source_file import open_quietly

HEAD_BYTES = 64 * 1024
BUDGET_BYTES = 1024 * 1024  # read beyond the head
BUDGET_LOOKS = 2000  # whatever lengths the file claims, walking along them ends here


class Peek:
    """The first bytes of a file, and any others within the budget. Beyond it, everything looks empty."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self.head = file.read(HEAD_BYTES)
        self._bytes_left = BUDGET_BYTES
        self._looks_left = BUDGET_LOOKS

    def at(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset`: fewer at the end of the file, none when the budget is spent."""
        if not 0 <= offset < self.size or count <= 0 or self._looks_left == 0:
            return b""
        self._looks_left -= 1
        if offset + count <= len(self.head):
            return self.head[offset : offset + count]
        count = min(count, self._bytes_left)
        self._bytes_left -= count
        self._file.seek(offset)
        return self._file.read(count)

    def number(self, offset: int, count: int, *, little: bool = False) -> int:
        """An unsigned number; 0 where there is none."""
        found = self.at(offset, count)
        return int.from_bytes(found, "little" if little else "big") if len(found) == count else 0


class FileBytes:
    """A part of a file that somebody else is reading: its place in the file is left where it is."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __getitem__(self, part: slice) -> bytes:
        return os.pread(self._descriptor, max(0, part.stop - part.start), part.start)


def open_regular(path: Path) -> BinaryIO:
    """Open without ever waiting for a pipe or a device. Raises OSError for what is no regular file."""
    return os.fdopen(open_quietly(path), "rb", buffering=0)
