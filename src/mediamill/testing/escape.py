"""What an attempt to get out of a child process is: what it wants, what should refuse it, how it is made."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mediamill.processors.contract import ProcessorInput

By = Literal["landlock", "seccomp", "limits"]
LANDLOCK: tuple[By, ...] = ("landlock",)
SECCOMP: tuple[By, ...] = ("seccomp",)
LIMITS: tuple[By, ...] = ("limits",)  # the kernel's, or the worker ends the child
EITHER: tuple[By, ...] = ("landlock", "seccomp")
# EXDEV is what Landlock says to links and renames that leave a folder.
REFUSED = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EXDEV})
EXHAUSTED = frozenset({errno.EMFILE})
AT_FDCWD, RENAME_EXCHANGE = -100, 2
DATAGRAMS = "-datagrams"  # behind the name of a socket: its neighbour that takes them
_COLUMN = 0 if platform.machine() == "x86_64" else 1


@dataclass(frozen=True, slots=True)
class Targets:
    """What is outside of the child, put there for it to want."""

    secret: str  # a file of its user
    folder: str  # which it lies in
    neighbour: str  # a file of another child
    worker: int  # process id
    port: int  # somebody listens, on loopback
    unix_socket: str  # likewise
    abstract_socket: str  # likewise


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way out: what it does, and what should keep it from that."""

    what: str
    by: tuple[By, ...]  # any of them will do
    act: Callable[[Targets, ProcessorInput], object]
    since: int = 1  # the first version of Landlock that knows it

    def is_refused_by(self, landlock: int, *, seccomp: bool) -> bool:
        """Should it be, where this version of Landlock (0: none) and seccomp or not are in force?"""
        if "landlock" in self.by and landlock >= self.since:
            return True
        return "limits" in self.by or (seccomp and "seccomp" in self.by)


def call(numbers: tuple[int | None, int | None], *arguments: Any) -> int:
    """A system call by its number, as the C library may not have it."""
    number = numbers[_COLUMN]
    if number is None:
        raise OSError(errno.ENOSYS, "this machine has no such call")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide, *[ctypes.c_long(0)] * (6 - len(wide)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def calls(x86: int | None, arm: int | None, *arguments: Any) -> Callable[[Targets, ProcessorInput], int]:
    """An attempt that is one call."""
    return lambda _targets, _given: call((x86, arm), *arguments)


def read(path: Path | str) -> str:
    """The beginning of a file."""
    return Path(path).read_text(errors="replace")[:20]
