"""What the jobs of every peer do. The bodies are shared so that only the engines differ."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from functools import cache

from bench.engine.measure import event_log, latency_socket, tally

SLOW_SECONDS = 5.0


def run_noop() -> None:
    """Count the run, nothing else."""
    tally.hit()


def run_stamp(number: int) -> None:
    """Tell the runner, by datagram, when job `number` began to run."""
    now = time.time()
    _stamp_socket().sendto(f"{number} {now!r}".encode(), str(latency_socket()))


async def run_slow(number: int) -> None:
    """Stay running long enough to be killed in the middle, and write down both ends."""
    record_event("start", number)
    await asyncio.sleep(SLOW_SECONDS)
    record_event("end", number)


def record_event(name: str, number: int) -> None:
    """Append one line; O_APPEND keeps lines of several processes whole."""
    log = os.open(event_log(), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, f"{name} {number} {time.time()!r}\n".encode())
    finally:
        os.close(log)


@cache
def _stamp_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
