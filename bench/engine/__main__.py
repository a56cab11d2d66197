"""Measure the engines side by side: each round runs each phase with each peer in turn, in one PostgreSQL.

python -m bench.engine --rounds 3
python -m bench.engine --quick --peers limit,pgqueuer --phases enqueue,drain1
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from bench.engine.measure import SCRATCH_VARIABLE
from bench.engine.peers import NAMES, NotWiredError, PeerFailedError, load_peer
from bench.engine.phases import ONCE, PHASES, QUICK, Row, Sizes, Trial
from bench.engine.report import (
    compute_ratios,
    format_ratios,
    format_row,
    format_table,
    write_results,
)
from bench.engine.servers import describe_server, fresh_database, running_server
from bench.engine.workers import ROOT
from bench.frame import names_from
from bench.machine import describe_machine

RESULTS = ROOT / "bench" / "results"
SHARED_MEMORY = Path("/dev/shm")


def main() -> int:
    """Measure, print, write; 1 if a peer could not be measured."""
    options = _parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers and server are stopped
    sizes = QUICK if options.quick else Sizes()
    machine = describe_machine()  # before we load it ourselves
    print(f"load before the run: {machine['load_before']} on {machine['cores']} cores", flush=True)
    scratch = tempfile.mkdtemp(
        prefix="mediamill-bench-", dir=SHARED_MEMORY if SHARED_MEMORY.exists() else None
    )
    os.environ[SCRATCH_VARIABLE] = scratch  # the workers inherit it
    try:
        with running_server(options.data) as server_url:
            server = describe_server(server_url)
            rows = measure_all(server_url, options, sizes)
    finally:
        shutil.rmtree(scratch)
    command = shlex.join(["python", "-m", "bench.engine", *sys.argv[1:]])
    write_results(options.out, machine | {"server": server}, command, options.rounds, rows)
    print(format_table(rows))
    print("\nratios (-: not measured)\n" + format_ratios(compute_ratios(rows)))
    return 1 if any("error" in row for row in rows) else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=names_from(NAMES), default=list(NAMES), help=",".join(NAMES))
    parser.add_argument("--phases", type=names_from(PHASES), default=list(PHASES), help=",".join(PHASES))
    parser.add_argument("--quick", action="store_true", help="a small run, to see that everything works")
    parser.add_argument(
        "--data", type=Path, default=ROOT / "bench" / "run" / "server", help="the server's folder"
    )
    parser.add_argument("--out", type=Path, default=None, help="results file")
    options = parser.parse_args(arguments)
    # a quick run must not pass for the real figures
    options.out = options.out or RESULTS / ("engine-quick.json" if options.quick else "engine.json")
    return options


def measure_all(server_url: str, options: argparse.Namespace, sizes: Sizes) -> list[Row]:
    """A row for each round, phase and peer."""
    rows: list[Row] = []
    left_out: set[str] = set()
    plan = list(_plan(options))
    for done, (number, phase, name) in enumerate(plan, 1):
        if name in left_out:
            continue
        started = time.monotonic()
        row: Row = {"round": number, "phase": phase, "peer": name}
        try:
            row |= _measure(server_url, name, phase, sizes)
        except NotWiredError as error:
            row["error"] = str(error)
            left_out.add(name)
        except PeerFailedError as error:
            row["error"] = str(error)
        except Exception as error:  # a peer's own failure must not cost the figures measured before
            row["error"] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        rows.append(row)
        seconds = time.monotonic() - started
        head = f"[{done}/{len(plan)}] round {number} {phase:8} {name:14}"
        print(f"{head}{format_row(row)}  ({seconds:.0f} s)", flush=True)
    return rows


def _plan(options: argparse.Namespace) -> Iterator[tuple[int, str, str]]:
    for number in range(1, options.rounds + 1):
        for phase in options.phases:
            if phase in ONCE and number > 1:
                continue
            for name in options.peers:
                if phase in load_peer(name).PHASES:
                    yield number, phase, name


def _measure(server_url: str, name: str, phase: str, sizes: Sizes) -> Row:
    peer = load_peer(name)
    with fresh_database(server_url, f"bench_{name}") as url:
        peer.prepare(url)
        return PHASES[phase](Trial(name, peer, url, sizes))


if __name__ == "__main__":
    sys.exit(main())
