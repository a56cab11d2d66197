"""Opening a file of somebody else's: for reading, by one descriptor for all that is wanted of it, and leaving no trace.

A function that takes a `Source` reads by the descriptor it is given, from the start, or opens a path itself. So a
file that is sniffed, probed and decoded is still opened once.

A confined child can open no file by its name. Its `InputFile` is a path that was opened before, by the worker: it is
read with `path.open()` like any other, and functions that take a `Source` use its descriptor.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PosixPath
from typing import Any, Self

Source = Path | int  # a path, or an open descriptor that nobody else reads by meanwhile

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # never wait for a pipe or a device
_NO_ACCESS_TIME = getattr(os, "O_NOATIME", 0)  # Linux has it


class InputFile(PosixPath):
    """A file, or a folder of files, that is open already. Its name is for people; nothing is opened by it.

    `failed`: the number of the error with which it could not be opened, or 0.
    """

    descriptor: int | None = None
    members: Mapping[str, int] | None = None
    failed: int = 0

    @classmethod
    def opened(
        cls,
        path: Path | str,
        *,
        descriptor: int | None = None,
        members: Mapping[str, int] | None = None,
        failed: int = 0,
    ) -> Self:
        """A path with what it stands for."""
        made = cls(path)
        made.descriptor, made.members, made.failed = descriptor, members, failed
        return made

    def take_descriptor(self) -> int:
        """To be read by from its start, not closed. OSError if there is none."""
        if self.descriptor is None:
            number = self.failed or (errno.ENOENT if self.members is None else errno.EISDIR)
            raise OSError(number, os.strerror(number), str(self))
        return self.descriptor

    def __truediv__(self, name: Any) -> Self:
        if self.members is None:
            return super().__truediv__(name)
        return self.opened(super().__truediv__(name), descriptor=self.members.get(str(name)))

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """As Path.open, for reading."""
        if mode not in ("r", "rt", "rb"):
            raise io.UnsupportedOperation("the file of a job is never written")
        raw = DescriptorReader(self.take_descriptor())
        if buffering == 0:
            return raw
        buffered = io.BufferedReader(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As Path.stat."""
        del follow_symlinks
        return os.fstat(self.take_descriptor())

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """As Path.exists."""
        del follow_symlinks
        self._raise_unless_absent()
        return self.descriptor is not None or self.members is not None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """As Path.is_file."""
        del follow_symlinks
        self._raise_unless_absent()
        return self.descriptor is not None

    def _raise_unless_absent(self) -> None:
        if self.failed not in (0, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL):
            raise OSError(self.failed, os.strerror(self.failed), str(self))

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """As Path.is_dir."""
        del follow_symlinks
        return self.members is not None


class DescriptorReader(io.RawIOBase):
    """Reads by a duplicate of a descriptor, with a position of its own, so that several can read at once."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = os.dup(descriptor)
        self._at = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """For those who look at its size. Its position is another."""
        return self._descriptor

    def read(self, size: int = -1, /) -> bytes:
        """Up to so many bytes; all that are left if it is negative."""
        if size < 0:
            return self.readall()
        data = os.pread(self._descriptor, size, self._at)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """As io.RawIOBase.readinto."""
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """As io.IOBase.seek."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        if start is None:
            start = os.fstat(self._descriptor).st_size
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._at

    def close(self) -> None:
        """The descriptor that it was made from stays open."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def open_quietly(path: Path) -> int:
    """Open a regular file; its time of last access stays, where we are allowed that. Raises OSError."""
    if isinstance(path, InputFile):
        descriptor = os.dup(path.take_descriptor())
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor
    try:
        descriptor = os.open(path, _FLAGS | _NO_ACCESS_TIME)
    except PermissionError:  # only a file's owner may ask for that; or we may not read it at all
        descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def is_at(descriptor: int, path: Path) -> bool:
    """Is what was opened the file of that path, and no link on the way? A folder may have become one in this moment.

    The path is one without links. Where the system does not tell, it is believed.
    """
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink() == path
    except OSError:
        return True


@contextmanager
def opened(source: Source) -> Iterator[int]:
    """A descriptor at the start of the file; closed in the end, if it was opened here."""
    if isinstance(source, int):
        os.lseek(source, 0, os.SEEK_SET)
        yield source
        return
    descriptor = open_quietly(source)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
