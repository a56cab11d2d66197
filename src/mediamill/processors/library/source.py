"""The file of a library that a job is about: opened once, its real type known; what is wrong with it is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mediamill.errors import RetryLaterError
from mediamill.media.errors import EmptyMediaError, MissingMediaError
from mediamill.media.sniff import sniff
from mediamill.media.source_file import open_quietly


class UnreadableFileError(RetryLaterError):
    """The file is there but cannot be read now: a network that hiccups, a permission that may be given."""

    code = "unreadable_file"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that is open."""

    descriptor: int
    mime_type: str
    bytes: int
    changed_ns: int

    @property
    def stamp(self) -> str:
        """Another file, or the same after a change, has another."""
        return f"{self.bytes}-{self.changed_ns}"


@contextmanager
def open_file(path: Path | None) -> Iterator[SourceFile]:
    """The type comes from the bytes: what its name says is not asked."""
    if path is None:
        raise MissingMediaError("the job names no file")
    try:
        descriptor = open_quietly(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingMediaError("the file is not there (any more)") from error
    except OSError as error:
        raise UnreadableFileError(f"the file cannot be opened: {error.strerror or error}") from error
    try:
        found = os.fstat(descriptor)
        if found.st_size == 0:
            raise EmptyMediaError("the file is empty (0 bytes)")
        yield SourceFile(descriptor, _type_of(descriptor), found.st_size, found.st_mtime_ns)
    finally:
        os.close(descriptor)


def _type_of(descriptor: int) -> str:
    try:
        return sniff(descriptor).mime_type
    except OSError as error:
        raise UnreadableFileError(f"the file cannot be read: {error.strerror or error}") from error
