"""What a fuzz run looks at besides the database: folders that must not change, children's memory, told reasons."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

Snapshot = dict[str, tuple[int, int, int]]

_CHILD = b"mediamill.worker.child"
_MEMORY = ("RssAnon:", "RssShmem:", "VmSwap:")
_CLASS_NAME = re.compile(r"(\w+\.)*\w*(Error|Exception|Warning|Interrupt|Exit)\b\s*(:|$)")
_DEATH = re.compile(r"processor '[^']*' (was ended by|ended|closed its connection|sent|answered)")
_BAD_START = re.compile(
    r"processor '[^']*' (\([^)]*\) )?(cannot be loaded|has no method|was not ready)|no child process"
)
_KILLED_FOR_MEMORY = "the processor used more than its limit"
LEAST_REASON = 12  # characters; "no text" would not help anybody


def take_snapshot(folder: Path) -> Snapshot:
    """Every file and folder beneath, with what changes when somebody writes to it."""
    seen: Snapshot = {}
    for path in (folder, *folder.rglob("*")):
        found = path.lstat()
        seen[str(path)] = (found.st_size, found.st_mtime_ns, found.st_mode)
    return seen


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """What was made, changed or removed."""
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


def children_over_memory(worker: int) -> Iterator[tuple[str, int, bool]]:
    """Of each child of a worker: its processor, the memory that it holds, and whether that is too much."""
    for pid in _children(worker):
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError, TypeError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if _CHILD not in words:
                continue
            plan = json.loads(words[words.index(_CHILD) + 1])
            memory = _memory(pid)
            yield plan["processor"], memory, memory > plan["memory_bytes"]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def _memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_MEMORY))


def is_clear(reason: str) -> bool:
    """Does it say what is wrong? No text, an exception's name (with a library's words) or a traceback does not."""
    told = reason.strip()
    vague = _CLASS_NAME.match(told) or "Traceback (most recent call last)" in told
    return len(told) >= LEAST_REASON and " " in told and not vague


def tells_child_death(reason: str) -> bool:
    """Did the child die, so that the worker had to say why?"""
    return bool(_DEATH.match(reason))


def tells_bad_start(reason: str) -> bool:
    """Could the processor not even be loaded? Then the file was never tried."""
    return bool(_BAD_START.match(reason))


def tells_memory_kill(reason: str) -> bool:
    """Was the child killed because it was above its limit? To be refused memory is no fault."""
    return reason.startswith(_KILLED_FOR_MEMORY)
