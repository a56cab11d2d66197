"""Files of failed jobs, put aside for a while so that they can be tried again. Strangers sent them: they may take up so
much room and no more, and the oldest go first."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from mediamill.staging import failed_folder, staging_folder
from mediamill.storage.deletions import deletions_wait

MOST_BYTES = 2 * 1024**3


def put_aside(data_folder: Path, guid: str, most_bytes: int = MOST_BYTES) -> None:
    """From the staging folder; one that is larger than all the room there is, is deleted."""
    staged, aside = staging_folder(data_folder) / guid, failed_folder(data_folder) / guid
    aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        staged.replace(aside)
    with contextlib.suppress(FileNotFoundError):
        os.utime(aside)  # it is kept for a while from now on
    if not deletions_wait(data_folder):
        _make_room(aside.parent, most_bytes)


def _make_room(folder: Path, most_bytes: int) -> None:
    """Delete the oldest until the rest fits."""
    with os.scandir(folder) as entries:
        found = [(entry.stat(follow_symlinks=False), entry.path) for entry in entries]
    total = sum(stat.st_size for stat, _ in found)
    for stat, path in sorted(found, key=lambda each: each[0].st_mtime_ns):
        if total <= most_bytes:
            return
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        total -= stat.st_size
