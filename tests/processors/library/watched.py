"""How often a file is opened, and whether reading it shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WATCHED = """
import ctypes, os, sys
from pathlib import Path
from mediamill.processors.contract import ProcessorInput
from mediamill.processors.registry import load_processor
name, path, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
processor = load_processor(name)
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, os.fsencode(path), 0x20) >= 0  # IN_OPEN
processor.process(ProcessorInput({}, None, path, folder, None, 1, lambda *a, **k: None))
print(len(os.read(watch, 65536)) // 16)
"""


def count_opens(processor: str, path: Path, folder: Path) -> int:
    """How often the processor opens the file, by the kernel's count."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", WATCHED, processor, str(path), str(folder)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def moves_access_time(path: Path) -> bool:
    """Does this file system note who reads?"""
    path.write_bytes(b"x" * 100)
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    path.read_bytes()
    return path.stat().st_atime_ns != 1_000_000_000
