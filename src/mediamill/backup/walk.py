"""Every file of the data folder that belongs into a backup, in the order of the list."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mediamill.backup.model import is_left_out, order_of

Way = tuple[str, ...]
NAMED_LEFT_OUT = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A plain file."""

    path: Path
    parts: Way
    bytes: int
    mtime_ns: int


def walk(data_folder: Path, left_out: list[str]) -> Iterator[Found]:
    """Plain files. Links and the like are not followed and not copied; the first of them are named in `left_out`."""
    names = [name for name in _names(data_folder) if not is_left_out(name)]
    for name in sorted(names, key=lambda each: order_of((each,))):
        yield from _walk(data_folder / name, (name,), left_out)


def _walk(path: Path, parts: Way, left_out: list[str]) -> Iterator[Found]:
    """What vanishes while we look was deleted or moved on; nobody needs it here."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISREG(found.st_mode):
        yield Found(path, parts, found.st_size, found.st_mtime_ns)
    elif stat.S_ISDIR(found.st_mode):
        for name in _names(path):
            yield from _walk(path / name, (*parts, name), left_out)
    elif len(left_out) < NAMED_LEFT_OUT:
        left_out.append("/".join(parts))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
    except (FileNotFoundError, NotADirectoryError):
        return []
