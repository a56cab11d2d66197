"""A file of a bucket as a file object, for code that looks here and there into one. For threads only."""

from __future__ import annotations

import io
import os
from typing import BinaryIO, cast

from mediamill.storage.bucket import BucketFile, parts_of

BUFFER_BYTES = 1 << 18


class _Raw(io.RawIOBase):
    def __init__(self, file: BucketFile) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._file.length)[whence]
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        length = max(0, min(len(view), self._file.length - self._at))
        parts = parts_of(self._file.pieces, self._at, length)
        data = b"".join(
            self._file.objects.read_now(piece.key, first, amount) for piece, first, amount in parts
        )
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def as_file(file: BucketFile) -> BinaryIO:
    """Buffered: whoever reads a few bytes at a time does not ask the bucket for each."""
    return cast(BinaryIO, io.BufferedReader(_Raw(file), BUFFER_BYTES))
