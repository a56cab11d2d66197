"""Members of a ZIP archive, unpacked as a stream and counted while they are: what headers say is not believed."""

from __future__ import annotations

import posixpath
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from mediamill.media.errors import DamagedMediaError, MediaTooLargeError, ProtectedMediaError
from mediamill.media.source_file import DescriptorReader, opened
from mediamill.processors.document.document_text import MEGABYTE, Limits

# Large: expat looks at an unfinished token again with every chunk.
CHUNK_BYTES = MEGABYTE
DIRECTORY_BYTES = 4 * MEGABYTE
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    ArithmeticError,
    NotImplementedError,
    RuntimeError,
)


class _ShortReads(DescriptorReader):
    """zipfile reads the whole directory at once, as large as the file says it is: not here."""

    def read(self, size: int | None = -1, /) -> Any:
        wanted = DIRECTORY_BYTES if size is None or size < 0 else size  # -1: the last few bytes of the file
        if wanted > DIRECTORY_BYTES:
            raise MediaTooLargeError("document too large: the directory of its archive is too long")
        return super().read(wanted)


class Archive:
    """The members are named as in the file and never touch the disk."""

    def __init__(self, path: Path, limits: Limits, what: str) -> None:
        self.what, self._limits = what, limits
        self._unpacked_bytes = 0
        with opened(path) as descriptor:
            self._file = _ShortReads(descriptor)
        try:
            self._zip = zipfile.ZipFile(self._file)
        except BROKEN as error:
            self._file.close()
            raise DamagedMediaError(
                f"the {what} file is damaged: its archive cannot be opened ({error})"
            ) from error
        except MediaTooLargeError:
            self._file.close()
            raise
        self.names = frozenset(self._zip.namelist())
        if len(self.names) > limits.members:
            self.close()
            raise MediaTooLargeError(f"document too large: its archive has {len(self.names):,} members")

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        try:
            zip_file = getattr(self, "_zip", None)
            if zip_file is not None:
                zip_file.close()
        finally:
            self._file.close()

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of a member; nothing if there is no such member."""
        if name not in self.names:
            return
        info = self._zip.getinfo(name)
        if info.flag_bits & 1:
            raise ProtectedMediaError(f"the {self.what} file is protected by a password")
        if info.compress_type not in METHODS:
            raise DamagedMediaError(f"the {self.what} file is packed in a way that no office program uses")
        part_bytes = 0
        try:
            with self._zip.open(info) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    part_bytes += len(chunk)
                    self._count(part_bytes, len(chunk))
                    yield chunk
        except BROKEN as error:
            raise DamagedMediaError(f"the {self.what} file is damaged: {error}") from error

    def read(self, name: str, limit_bytes: int) -> bytes:
        """The beginning of a small member."""
        whole = b""
        for chunk in self.chunks(name):
            whole += chunk
            if len(whole) >= limit_bytes:
                break
        return whole[:limit_bytes]

    def _count(self, part_bytes: int, chunk_bytes: int) -> None:
        self._unpacked_bytes += chunk_bytes
        if part_bytes > self._limits.part_bytes or self._unpacked_bytes > self._limits.unpacked_bytes:
            raise MediaTooLargeError(
                f"document too large: the {self.what} file unpacks to more than "
                f"{min(part_bytes, self._limits.part_bytes) // MEGABYTE} MB in one part or "
                f"{self._limits.unpacked_bytes // MEGABYTE} MB in all"
            )


def resolve(source: str, target: str) -> str:
    """The member that a link in the member `source` means."""
    if target.startswith("/"):
        return posixpath.normpath(target).lstrip("/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
