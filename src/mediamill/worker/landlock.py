"""Landlock: which folders a process may write to. Reading and running programs stay allowed everywhere.

It holds for the calling thread and all that it starts from then on, for good. Threads that exist already are
not held, so it comes before the libraries that start some. It does not look at a file's mode and times.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

PR_SET_NO_NEW_PRIVS = 38
_MACHINES = ("x86_64", "aarch64")  # where the three calls have these numbers
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _BENEATH = 1, 1

_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
_MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14  # rename or link between folders: version 2; version 3
_FIRST_VERSION = (
    *(_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE, _MAKE_CHAR, _MAKE_DIR, _MAKE_REG),
    *(_MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM),
)
_NO_ABSTRACT_SOCKETS, _NO_SIGNALS = 1, 2  # to processes outside: version 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 if it has none or it is switched off."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _ASK_VERSION))


def allow_writes(folders: Iterable[Path], devices: Iterable[Path] = (), *, alone: bool = False) -> None:
    """From now on this thread writes to nothing else. `alone`: nor does it signal processes outside."""
    version = landlock_version()
    handled = sum(_FIRST_VERSION) | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    scoped = _NO_ABSTRACT_SOCKETS | _NO_SIGNALS if alone and version >= 6 else 0
    ruleset = _Ruleset(handled, 0, scoped)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _checked(_call(_CREATE_RULESET, ctypes.byref(ruleset), size, 0))
    try:
        for folder in folders:
            _add(rules, folder, handled & ~(_MAKE_CHAR | _MAKE_BLOCK))
        for device in devices:
            _add(rules, device, handled & (_WRITE_FILE | _TRUNCATE))
        libc = ctypes.CDLL(None, use_errno=True)
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))))
        _checked(_call(_RESTRICT_SELF, rules, 0, 0))
    finally:
        os.close(rules)


def _add(rules: int, path: Path, allowed: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                allowed &= _WRITE_FILE | _TRUNCATE
            beneath = _Beneath(allowed, opened)
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
