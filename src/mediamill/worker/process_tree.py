"""Looks at a child process and everything it started, through /proc: kills all of it, measures its memory.

A process belongs to a child if it is in the child's session, descends from it, or carries the child's mark
in its environment (which survives a change of session and the death of the parents in between). Without
/proc, only the child's own process group is known.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MARK = "MEDIAMILL_SANDBOX"
_PROC = Path("/proc")


class _Seen(NamedTuple):
    pid: int
    state: str
    parent: int
    session: int
    started: int


def kill_family(leader: int, mark: str) -> None:
    """SIGKILL for a child that has not been reaped yet, and for all that it started."""
    started = next((seen.started for seen in _look([leader])), 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    killed: set[int] = {leader}
    # A process with SIGKILL pending forks no more, so this ends once a round finds nobody new.
    while new := _family(leader, mark, started) - killed:
        _kill_each(new)
        killed |= new


def kill_marked(mark: str) -> None:
    """SIGKILL for every process that carries a mark that begins so."""
    killed: set[int] = set()
    while new := {seen.pid for seen in _look() if _is_marked(seen.pid, mark)} - killed - {os.getpid()}:
        _kill_each(new)
        killed |= new


def measure_memory(leader: int, *, exact: bool = False) -> int:
    """Bytes that a child and its descendants hold and that cannot be dropped (no file pages).

    Quick by default, counting pages that forked processes share more than once; `exact` divides them.
    """
    return sum(_memory_of(pid, exact) for pid in _descendants(leader))


def measure_writes(leader: int) -> int:
    """Bytes that a child and its descendants have written so far, wherever to."""
    return sum(_writes_of(pid) for pid in _descendants(leader))


def _writes_of(pid: int) -> int:
    """Both what was handed to the system and what changed in memory that belongs to files."""
    with contextlib.suppress(OSError, ValueError):
        lines = (_PROC / str(pid) / "io").read_text().splitlines()
        counts = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
        return max(counts["wchar"], counts["write_bytes"])
    return 0


def _kill_each(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _family(leader: int, mark: str, started: int) -> set[int]:
    everyone = [seen for seen in _look() if seen.state != "Z" and seen.started >= started]
    family = {seen.pid for seen in everyone if seen.session == leader}
    family |= {seen.pid for seen in everyone if seen.pid not in family and _is_marked(seen.pid, mark)}
    while more := {s.pid for s in everyone if s.parent in family | {leader} and s.pid not in family}:
        family |= more
    return family - {leader}


def _look(pids: list[int] | None = None) -> Iterator[_Seen]:
    if pids is None:
        pids = [int(name) for name in _names(_PROC) if name.isdigit()]
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in brackets may hold spaces and brackets itself; the numbers follow the last one.
            rest = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            yield _Seen(pid, rest[0], int(rest[1]), int(rest[3]), int(rest[19]))


def _is_marked(pid: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        return b"\0" + f"{MARK}={mark}".encode() in b"\0" + (_PROC / str(pid) / "environ").read_bytes()
    return False


def _descendants(leader: int) -> list[int]:
    found = [leader]
    for pid in found:  # grows while it is walked
        for task in _names(_PROC / str(pid) / "task"):
            with contextlib.suppress(OSError, ValueError):
                found += map(int, (_PROC / str(pid) / "task" / task / "children").read_text().split())
    return found


def _memory_of(pid: int, exact: bool) -> int:
    file, fields = (
        ("smaps_rollup", ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
        if exact
        else (
            "status",
            ("RssAnon:", "RssShmem:", "VmSwap:"),
        )
    )
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (_PROC / str(pid) / file).read_text(errors="replace").splitlines():
            if line.startswith(fields):
                total += int(line.split()[1]) * 1024
    return total


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only, and often
    except OSError:
        return []
