"""Measure what a stranger meets: what listens where while `mediamill up` runs, and answers beside slow connections.

python -m bench.outside
python -m bench.outside --slow 0,100 --requests 50   (a small run)
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx
import psutil

from bench.frame import RESULTS, head_of, look_at_machine, tell
from bench.serving import free_port, serving
from mediamill.client.wire import LocalPass
from mediamill.db.embedded import postmaster_pid

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
DRIP_SECONDS = 1.0


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.outside", description=__doc__.splitlines()[0])
    parser.add_argument("--slow", default="0,500,1000", help="how many slow connections, separated by commas")
    parser.add_argument("--requests", type=int, default=300, help="requests of somebody else meanwhile")
    options = parser.parse_args()
    machine = look_at_machine()
    with tempfile.TemporaryDirectory(prefix="mediamill-bench-", ignore_cleanup_errors=True) as folder:
        data, port = Path(folder) / "data", free_port()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAMILL_")}
        environment |= {
            "MEDIAMILL_DATA": str(data),
            "MEDIAMILL_PORT": str(port),
            "MEDIAMILL_LOG_LEVEL": "ERROR",
        }
        with serving([sys.executable, "-m", "mediamill", "up"], environment, port) as server:
            found = {
                "listening": _listening(server, data),
                "slow_connections": [
                    _measure(port, data, int(count), options.requests) for count in options.slow.split(",")
                ],
            }
    result = {**head_of("bench.outside", machine), **found}
    print(json.dumps(result, indent=1))
    (RESULTS / "outside.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _listening(server: psutil.Process, data: Path) -> list[dict[str, Any]]:
    """Every address on which the server, its database, its workers and their children can be reached."""
    roots = [server, *(psutil.Process(pid) for pid in [postmaster_pid(data)] if pid is not None)]
    processes = [process for root in roots for process in (root, *root.children(recursive=True))]
    found = set()
    for process in processes:
        for line in process.net_connections("inet"):
            if line.status == psutil.CONN_LISTEN or (line.type == socket.SOCK_DGRAM and not line.raddr):
                kind = "udp" if line.type == socket.SOCK_DGRAM else "tcp"
                found.add((kind, f"{line.laddr.ip}:{'the port' if kind == 'tcp' else line.laddr.port}"))
    for path in _unix_sockets({process.pid for process in processes}):
        found.add(("unix", path))
    return [{"kind": kind, "address": address} for kind, address in sorted(found)]


def _unix_sockets(pids: set[int]) -> Iterator[str]:
    for pid in pids:
        for line in psutil.Process(pid).net_connections("unix"):
            if line.laddr and ".s.PGSQL." in str(line.laddr):
                yield f"PostgreSQL's socket, in a folder of mode {oct(Path(line.laddr).parent.stat().st_mode & 0o777)}"


def _measure(port: int, data: Path, slow: int, requests: int) -> dict[str, Any]:
    """Requests of the server's own user, each by a new connection, beside so many that drip a byte a second."""
    with _slow_connections(port, slow) as opened:
        before, took, failed = time.perf_counter(), [], 0
        for _ in range(requests):
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", auth=LocalPass(data), trust_env=False
            ) as client:
                began = time.perf_counter()
                try:
                    client.get("/api/jobs").raise_for_status()
                except httpx.HTTPError:
                    failed += 1
                took.append(time.perf_counter() - began)
        seconds = time.perf_counter() - before
    cuts = quantiles(took, n=100)
    row = {
        "slow": slow,
        "slow_opened": opened[0],
        "requests": requests,
        "failed": failed,
        "median_ms": round(cuts[49] * 1e3, 2),
        "p95_ms": round(cuts[94] * 1e3, 2),
        "slowest_ms": round(max(took) * 1e3, 2),
        "seconds": round(seconds, 1),
    }
    tell(json.dumps(row))
    return row


@contextmanager
def _slow_connections(port: int, count: int) -> Iterator[list[int]]:
    """Half a request each, a byte a second; one that the server closes is opened again. How many were opened in all."""
    ended, opened = threading.Event(), [0]

    def drip() -> None:
        lines: list[socket.socket] = []
        with ExitStack() as stack:
            while not ended.is_set():
                lines = [line for line in lines if _send(line, b"x")]
                for _ in range(count - len(lines)):
                    line = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                    _send(line, HALF)
                    lines.append(line)
                    opened[0] += 1
                ready.set()
                ended.wait(DRIP_SECONDS)

    ready = threading.Event()
    thread = threading.Thread(target=drip)
    thread.start()
    ready.wait(60)
    try:
        yield opened
    finally:
        ended.set()
        thread.join()


def _send(line: socket.socket, data: bytes) -> bool:
    try:
        line.sendall(data)
    except OSError:
        line.close()
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
