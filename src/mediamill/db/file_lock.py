"""Locks on files (flock) that the kernel frees when their holder dies, however it dies.

A lock belongs to the open file and would live on in forked children, so children close what they inherit.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_open_locks: set[int] = set()


def open_lock(path: Path) -> int:
    """Open the file to be locked, made if missing; never through a symlink that somebody else laid there."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    _open_locks.add(lock)
    return lock


def close_lock(lock: int) -> None:
    """Forget the file but leave the lock to whoever else holds the same open file."""
    _open_locks.discard(lock)
    os.close(lock)


def release(lock: int) -> None:
    """Give the lock up, also if a fork in another thread has just copied the descriptor."""
    fcntl.flock(lock, fcntl.LOCK_UN)
    close_lock(lock)


def share(lock: int) -> None:
    """Hold the lock together with others."""
    fcntl.flock(lock, fcntl.LOCK_SH)


def try_share(lock: int) -> bool:
    """Hold the lock together with others, if nobody holds it alone."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_exclusive(lock: int) -> bool:
    """Hold the lock alone, if nobody else holds it. When refused, a shared lock held before is lost."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until the lock on this file is ours alone, and hold it for the block."""
    lock = open_lock(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        release(lock)


def _close_inherited() -> None:
    while _open_locks:
        os.close(_open_locks.pop())


os.register_at_fork(after_in_child=_close_inherited)
