"""The file of a library that a job is about: opened once, its real type known; what is wrong with it is said."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mediamill.errors import NotNowError, RetryLaterError
from mediamill.media.errors import EmptyMediaError, MediaError, MissingMediaError
from mediamill.media.sniff import sniff
from mediamill.media.source_file import InputFile, is_at, open_quietly


class UnreadableFileError(RetryLaterError):
    """The file is there but cannot be read now: a network that hiccups, a permission that may be given."""

    code = "unreadable_file"


class SourceAwayError(NotNowError):
    """The disk or share that the file is on does not answer."""

    code = "source_away"


# What a share says that has gone stale, whose server is away, or a disk that was pulled out.
_AWAY = {errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.ETIMEDOUT, errno.ESHUTDOWN}
_AWAY |= {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET}


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
    """The type comes from the bytes: what its name says is not asked. The path leads there by no link."""
    if path is None:
        raise MissingMediaError("the job names no file")
    try:
        descriptor = open_quietly(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingMediaError("the file is not there (any more)") from error
    except OSError as error:
        raise _trouble(error, path, "opened") from error
    try:
        if not is_at(descriptor, path):
            raise MissingMediaError("a link stands in the way of the file")
        file = _look(descriptor, path)
        try:
            yield file
        except MediaError:  # damaged, or so it seemed
            _check_answers(file, path)
            raise
        _check_answers(file, path)
    finally:
        with suppress(OSError):  # nothing was written, so nothing is lost
            os.close(descriptor)


def _check_answers(file: SourceFile, path: Path) -> None:
    """A share that went away meanwhile looks like the end of a file to whoever decodes it."""
    try:
        os.fstat(file.descriptor)
        os.pread(file.descriptor, 1, file.bytes - 1)
    except OSError as error:
        trouble = _trouble(error, path, "read")
        if isinstance(trouble, SourceAwayError):
            raise trouble from error


def _look(descriptor: int, path: Path) -> SourceFile:
    try:
        found = os.fstat(descriptor)
        if found.st_size == 0:
            raise EmptyMediaError("the file is empty (0 bytes)")
        return SourceFile(descriptor, sniff(descriptor).mime_type, found.st_size, found.st_mtime_ns)
    except OSError as error:
        raise _trouble(error, path, "read") from error


def _trouble(error: OSError, path: Path, verb: str) -> Exception:
    """Is it the file, or all that is around it? An input/output error may be either."""
    why = f"{error.strerror or error}"
    unknown = isinstance(path, InputFile)  # then the worker looks
    if error.errno in _AWAY or (error.errno == errno.EIO and not unknown and not _can_list(path.parent)):
        return SourceAwayError(f"the place of the file does not answer: {why}", fix="mount it again")
    return UnreadableFileError(f"the file cannot be {verb}: {why}")


def _can_list(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
        return True
    except OSError:
        return False
