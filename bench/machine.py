"""What figures depend on: the machine, without its name."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil


def describe_machine() -> dict[str, Any]:
    """Call it before the run: it tells the load that others made."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "cores_used_before": cores_used(),
    }


def cores_used() -> float:
    """By everybody, in the next three seconds; the load average remembers what has long ended."""
    return round(psutil.cpu_percent(interval=3) / 100 * (os.cpu_count() or 1), 2)


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
