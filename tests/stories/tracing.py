"""A command under strace: which files did it and everything it started open?"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

OPENING = "trace=?open,openat,?openat2,?creat,?open_by_handle_at"


@cache
def can_trace() -> bool:
    """Not everywhere is it there, and allowed."""
    strace = shutil.which("strace")
    words = [strace or "", "-f", "-o", "/dev/null", "true"]
    return strace is not None and subprocess.run(words, capture_output=True, check=False).returncode == 0


def tracing(notes: Path) -> tuple[str, ...]:
    """The words before a command. Each of its threads has notes of its own, so that no line is torn."""
    notes.mkdir()
    return ("strace", "-ff", "--seccomp-bpf", "-y", "-e", OPENING, "-o", str(notes / "calls"))


def opened_inside(notes: Path, folder: Path) -> list[str]:
    """Every call that opened something in a folder, or tried to."""
    lines = [line for each in notes.iterdir() for line in each.read_text(errors="replace").splitlines()]
    assert lines, "nothing was traced"
    return [line for line in lines if str(folder) in line]
