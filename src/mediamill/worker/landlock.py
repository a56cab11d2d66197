"""Landlock: which files and folders a process may read, write or run, and which TCP ports it may connect to.

It holds for the calling thread and all that it starts from then on, for good. Threads that exist already are
not held, so it comes before the libraries that start some. It does not look at a file's mode and times, nor at who
asks whether a file exists: the filter on system calls and the documentation do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PR_SET_NO_NEW_PRIVS = 38
_MACHINES = ("x86_64", "aarch64")  # where the three calls have these numbers
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _BENEATH, _NET_PORT = 1, 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_FIRST_VERSION = (1 << 13) - 1  # all that can be done with files, but for what follows
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15  # versions 2, 3 and 5
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # the others are about folders
_BIND_TCP, _CONNECT_TCP = 1, 2  # version 4
_NO_ABSTRACT_SOCKETS, _NO_SIGNALS = 1, 2  # to processes outside: version 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


class _Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is left to a process. Folders stand for all that is in them; what is not there is passed over."""

    read: Iterable[Path] = ()
    run: Iterable[Path] = ()  # also read
    write: Iterable[Path] = ()  # also read
    devices: Iterable[Path] = ()
    connect: Iterable[int] = ()  # TCP ports, of any address


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 if it has none or it is switched off."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _ASK_VERSION))


def restrict(allowed: Allowed) -> None:
    """From now on this thread reads, writes, runs and connects to nothing else, and signals no process outside."""
    version = landlock_version()
    handled = _FIRST_VERSION | sum(
        right for right, since in ((_REFER, 2), (_TRUNCATE, 3), (_IOCTL_DEV, 5)) if version >= since
    )
    scoped = _NO_ABSTRACT_SOCKETS | _NO_SIGNALS if version >= 6 else 0
    ruleset = _Ruleset(handled, _BIND_TCP | _CONNECT_TCP if version >= 4 else 0, scoped)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _checked(_call(_CREATE_RULESET, ctypes.byref(ruleset), size, 0))
    try:
        reading = _READ_FILE | _READ_DIR
        for paths, rights in (
            (allowed.read, reading),
            (allowed.run, reading | _EXECUTE),
            (allowed.write, handled & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)),
            (allowed.devices, handled & (reading | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV)),
        ):
            for path in paths:
                _add(rules, path, rights)
        for number in allowed.connect if version >= 4 else ():
            port = _Port(_CONNECT_TCP, number)
            _checked(_call(_ADD_RULE, rules, _NET_PORT, ctypes.byref(port), 0))
        libc = ctypes.CDLL(None, use_errno=True)
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))))
        _checked(_call(_RESTRICT_SELF, rules, 0, 0))
    finally:
        os.close(rules)


def _add(rules: int, path: Path, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        opened = os.open(path, os.O_PATH)
        try:
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                rights &= _OF_FILES
            beneath = _Beneath(rights, opened)
            _checked(_call(_ADD_RULE, rules, _BENEATH, ctypes.byref(beneath), 0))
        finally:
            os.close(opened)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    # Variadic: a plain int would go as 32 bits.
    wide = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    return int(libc.syscall(ctypes.c_long(number), *wide))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result
