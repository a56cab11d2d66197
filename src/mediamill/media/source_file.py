"""Opening a file of somebody else's: for reading, by one descriptor for all that is wanted of it, and leaving no trace.

A function that takes a `Source` reads by the descriptor it is given, from the start, or opens a path itself. So a
file that is sniffed, probed and decoded is still opened once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Source = Path | int  # a path, or an open descriptor that nobody else reads by meanwhile

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # never wait for a pipe or a device
_NO_ACCESS_TIME = getattr(os, "O_NOATIME", 0)  # Linux has it


def open_quietly(path: Path) -> int:
    """Open a regular file; its time of last access stays, where we are allowed that. Raises OSError."""
    try:
        descriptor = os.open(path, _FLAGS | _NO_ACCESS_TIME)
    except (
        PermissionError
    ):  # only for who owns the file; or it is not for us at all, which the next line tells
        descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path.name!r} is not a regular file")
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
