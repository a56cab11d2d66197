"""A server in a process of its own, and the memory that it takes."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

START_SECONDS = 120


@contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str], port: int) -> Iterator[psutil.Process]:
    """From when it listens until the end of the block."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            _await_port(port, process)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("the server did not start")


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def forget_peak(process: psutil.Process) -> int:
    """Begin to measure the peak anew; the memory in use now, in bytes."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return memory_of(process, "VmRSS")


def memory_of(process: psutil.Process, name: str) -> int:
    """`VmRSS` is now, `VmHWM` the peak; in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024
