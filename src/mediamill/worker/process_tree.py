"""Looks at a child process and everything it started, through /proc: kills all of it, measures what it uses.

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
MOST_ROUNDS = 1000  # of looking for new processes; nobody has needed more than a few
_PROC = Path("/proc")
_HELD, _HELD_SHARES = ("RssAnon", "RssShmem", "VmSwap"), ("Pss_Anon", "Pss_Shmem", "SwapPss")
_NUMBERS = {*_HELD, *_HELD_SHARES, "Threads"}


class _Seen(NamedTuple):
    pid: int
    state: str
    parent: int
    session: int
    started: int
    ticks: int  # of processor time, its own and that of processes it waited for


def kill_family(leader: int, mark: str) -> None:
    """SIGKILL for a child that has not been reaped yet, and for all that it started.

    The child comes last, and sleeps until then: whatever its processes leave behind when they die becomes its own
    (process_namespace.py), and can be found.
    """
    started = next((seen.started for seen in _look([leader])), 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(leader, signal.SIGSTOP)
    killed: set[int] = set()
    # A process with SIGKILL pending forks no more, so this ends once a round finds nobody new.
    for _ in range(MOST_ROUNDS):
        if not (new := _family(leader, mark, started) - killed):
            break
        _kill_each(new)
        killed |= new
    _kill_each({leader})


def kill_marked(mark: str) -> None:
    """SIGKILL for every process that carries a mark that begins so."""
    killed: set[int] = set()
    while new := {seen.pid for seen in _look() if _is_marked(seen.pid, mark)} - killed - {os.getpid()}:
        _kill_each(new)
        killed |= new


class Use(NamedTuple):
    """What a child and its descendants hold now; not counted further once there are too many threads."""

    memory_bytes: int
    threads: int


def measure_use(leader: int, most_threads: int, *, alone: bool = False) -> Use:
    """Memory as in measure_memory. `alone`: it has no descendants."""
    memory = threads = 0
    for pid in [leader] if alone else _descendants(leader):
        fields = _status_of(pid)
        memory += sum(fields.get(name, 0) for name in _HELD) * 1024
        threads += fields.get("Threads", 0)
        if threads > most_threads:
            break
    return Use(memory, threads)


def measure_memory(leader: int, *, exact: bool = False) -> int:
    """Bytes that a child and its descendants hold and that cannot be dropped (no file pages).

    Quick by default, counting pages that forked processes share more than once; `exact` divides them.
    """
    file, names = ("smaps_rollup", _HELD_SHARES) if exact else ("status", _HELD)
    found = (_status_of(pid, file) for pid in _descendants(leader))
    return sum(fields.get(name, 0) for fields in found for name in names) * 1024


def measure_writes(leader: int, opened: int = -1, *, alone: bool = False) -> int:
    """Bytes that a child and its descendants have written so far, wherever to. `opened`: its /proc/…/io."""
    if alone and opened >= 0:
        with contextlib.suppress(OSError):
            return _count_writes(os.pread(opened, 4096, 0))
    return sum(map(_writes_of, [leader] if alone else _descendants(leader)))


def measure_cpu(leader: int, *, alone: bool = False) -> float:
    """Seconds of processor time that a child and its descendants have used so far."""
    found = _look([leader] if alone else list(_descendants(leader)))
    return sum(seen.ticks for seen in found) / os.sysconf("SC_CLK_TCK")


def _writes_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return _count_writes((_PROC / str(pid) / "io").read_bytes())
    return 0


def _count_writes(told: bytes) -> int:
    """Both what was handed to the system and what changed in memory that belongs to files."""
    words = told.split()
    return max(int(words[words.index(b"wchar:") + 1]), int(words[words.index(b"write_bytes:") + 1]))


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
            ticks = sum(map(int, rest[11:15]))
            yield _Seen(pid, rest[0], int(rest[1]), int(rest[3]), int(rest[19]), ticks)


def _is_marked(pid: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        return b"\0" + f"{MARK}={mark}".encode() in b"\0" + (_PROC / str(pid) / "environ").read_bytes()
    return False


def _descendants(leader: int) -> Iterator[int]:
    found = [leader]
    for pid in found:  # grows while it is walked
        yield pid
        for task in _names(_PROC / str(pid) / "task"):
            with contextlib.suppress(OSError, ValueError):
                found += map(int, (_PROC / str(pid) / "task" / task / "children").read_text().split())


def _status_of(pid: int, file: str = "status") -> dict[str, int]:
    """The numbers in such a file, by their names."""
    fields: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / file).read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in _NUMBERS:
                fields[name] = int(value.split()[0])
    return fields


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only, and often
    except OSError:
        return []
