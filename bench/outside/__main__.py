"""Measure what a stranger meets: what `mediamill up` opens, and how long answers take beside slow clients.

python -m bench.outside
python -m bench.outside --slow 0,100 --requests 50   (a small run)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from statistics import quantiles

import httpx
import psutil

from bench.frame import RESULTS, Found, head_of, look_at_machine, tell
from bench.outside.scan import (
    ALL_PORTS,
    count_connections,
    first_line,
    listening_ports,
    own_addresses,
    scan,
    unix_sockets,
)
from bench.outside.slow import CLIENTS, slow_clients
from bench.serving import free_port, serving
from mediamill.client.wire import LocalPass
from mediamill.db.embedded import postmaster_pid

Scan = dict[str, set[int]]


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.outside", description=__doc__.splitlines()[0])
    parser.add_argument("--slow", default="0,500,1000", help="how many slow clients, separated by commas")
    parser.add_argument("--requests", type=int, default=300, help="requests of somebody else meanwhile")
    options = parser.parse_args()
    machine = look_at_machine()
    counts = [int(count) for count in options.slow.split(",")]
    with tempfile.TemporaryDirectory(prefix="mediamill-bench-", ignore_cleanup_errors=True) as folder:
        found = measure(Path(folder), free_port(), ALL_PORTS, counts, options.requests)
    result = {**head_of("bench.outside", machine), **found}
    print(json.dumps(result, indent=1))
    (RESULTS / "outside.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


def measure(folder: Path, port: int, ports: Sequence[int], counts: Sequence[int], requests: int) -> Found:
    """Look before it runs and while it runs, then ask beside slow clients of every kind."""
    data, began = folder / "data", time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAMILL_")}
    environment |= {"MEDIAMILL_DATA": str(data), "MEDIAMILL_PORT": str(port), "MEDIAMILL_LOG_LEVEL": "ERROR"}
    before = scan_all(ports)
    with serving([sys.executable, "-m", "mediamill", "up"], environment, port) as server:
        after = scan_all(ports)
        tell(
            f"looked at {len(ports)} ports of {len(after)} addresses twice: {time.perf_counter() - began:.0f} s"
        )
        processes = _family(server, data)
        return {
            "ports": tell_ports(before, after, processes, port),
            "unix_sockets": unix_sockets(processes),
            "slow_clients": [
                measure_answers(server, port, data, kind, count, requests)
                for number, kind in enumerate(CLIENTS)
                for count in counts
                if count or not number  # beside nobody, once
            ],
        }


def scan_all(ports: Sequence[int]) -> Scan:
    """Of every address of this machine."""
    return {address: scan(address, ports) for address in own_addresses()}


def _family(server: psutil.Process, data: Path) -> list[psutil.Process]:
    """The server, its database, its workers and their children."""
    roots = [server, *(psutil.Process(pid) for pid in [postmaster_pid(data)] if pid is not None)]
    return [process for root in roots for process in (root, *root.children(recursive=True))]


def tell_ports(before: Scan, after: Scan, processes: list[psutil.Process], port: int) -> Found:
    """What takes connections now and did not before; what others opened meanwhile is only counted."""
    ours = listening_ports(processes)
    opened = {(address, each) for address in after for each in after[address] - before.get(address, set())}
    mine = sorted((address, each) for address, each in opened if ("tcp", each) in ours)
    return {
        "open_before": [
            {"address": _name(address), "ports": len(found)} for address, found in before.items()
        ],
        "opened": [
            {"address": _name(address), "port": _port_name(each, port), "says": first_line(address, each)}
            for address, each in mine
        ],
        "opened_by_others": len(opened) - len(mine),
        "listening": sorted(f"{kind} {_port_name(each, port)}" for kind, each in ours),
    }


def _name(address: str) -> str:
    """A results file does not tell where the machine is."""
    parsed = ip_address(address)
    return address if parsed.is_loopback else f"its own IPv{parsed.version} address"


def _port_name(port: int, known: int) -> str:
    return "the port" if port == known else str(port)


def measure_answers(
    server: psutil.Process, port: int, data: Path, kind: str, slow: int, requests: int
) -> Found:
    """Requests of the server's own user, each by a new connection, beside so many slow clients of a kind."""
    with slow_clients(port, kind, slow) as opened:
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
        held = count_connections(server, port)
    cuts = quantiles(took, n=100)
    row = {
        "kind": kind if slow else "none",
        "slow": slow,
        "slow_opened": len(opened),
        "held_at_the_end": held,
        "requests": requests,
        "failed": failed,
        "median_ms": round(cuts[49] * 1e3, 2),
        "p95_ms": round(cuts[94] * 1e3, 2),
        "slowest_ms": round(max(took) * 1e3, 2),
        "seconds": round(seconds, 1),
    }
    tell(json.dumps(row))
    return row


if __name__ == "__main__":
    sys.exit(main())
