"""Which files below a folder this process has open."""

from __future__ import annotations

import contextlib
from pathlib import Path


def open_files(folder: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of this very look
            found.append(str(descriptor.readlink()))
    return [path for path in found if Path(path).is_relative_to(folder)]
