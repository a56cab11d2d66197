"""While a backup takes its last look, no file is deleted that a row of its snapshot may name.

Whoever deletes files asks after the transaction that gave them up, and leaves them if a backup is at it: every file
that may be deleted is also found by a sweep, later. ([Why this is enough](../../../docs/decisions/backup-order.md).)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mediamill.db import file_lock

LOCK = "deletions.lock"


@contextmanager
def hold_deletions(data_folder: Path) -> Iterator[None]:
    """Nothing is deleted in the block. A process that dies lets go."""
    path = data_folder / LOCK
    data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file_lock.exclusive(path):
        if os.geteuid() == 0:  # whoever runs the server must be able to look
            owner = data_folder.stat()
            os.chown(path, owner.st_uid, owner.st_gid)
        yield


def deletions_wait(data_folder: Path) -> bool:
    """Must files stay for now?"""
    with suppress(FileNotFoundError):
        lock = file_lock.open_lock(data_folder / LOCK)
        try:
            return not file_lock.try_share(lock)
        finally:
            file_lock.release(lock)
    return False
