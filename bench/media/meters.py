"""CPU time and memory of processes."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_mb(pid: int | str) -> float:
    """The most memory that a process ever held. (`ru_maxrss` would include that of the process it came from.)"""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return round(int(found[1]) / 1024, 1) if found else 0.0  # a zombie has no memory any more
