"""Meters: runs counted through shared memory, CPU, WAL and commits per job, memory of a worker.

Wall clock moves with the machine's other load; CPU, WAL bytes and commits per job hardly do.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.engine.sql import fetch_row

SCRATCH_VARIABLE = "MEDIAMILL_BENCH_SCRATCH"
_SLOT = struct.Struct("<qdd")  # runs, first run at, last run at
_SLOT_BYTES = 64


def scratch_folder() -> Path:
    """Where runner and workers meet: tally slots, the event log and the latency socket."""
    return Path(os.environ[SCRATCH_VARIABLE])


def latency_socket() -> Path:
    """The datagram socket on which the runner hears that a job runs."""
    return scratch_folder() / "latency.sock"


def event_log() -> Path:
    """Starts and ends of the slow jobs, one per line."""
    return scratch_folder() / "events.log"


def clear_scratch() -> None:
    """Forget the last measurement; no worker may be running."""
    for path in scratch_folder().iterdir():
        path.unlink()


class Tally:
    """Counts runs in a memory-mapped slot that belongs to this process: no system call per job."""

    def __init__(self) -> None:
        self._slot: mmap.mmap | None = None
        self._owner_pid = 0
        self._runs = 0
        self._first_at = 0.0
        self._lock = threading.Lock()  # a peer may run jobs in threads

    def hit(self) -> None:
        """Count one run, now."""
        now = time.time()
        with self._lock:
            slot = self.open()
            if not self._runs:
                self._first_at = now
            self._runs += 1
            _SLOT.pack_into(slot, 0, self._runs, self._first_at, now)

    def open(self) -> mmap.mmap:
        """The slot of this process; a process that may not write later opens it in time."""
        if self._slot is None or self._owner_pid != os.getpid():  # a forked child needs its own slot
            self._slot = self._make_slot()
        return self._slot

    def _make_slot(self) -> mmap.mmap:
        self._owner_pid, self._runs = os.getpid(), 0
        with (scratch_folder() / f"{self._owner_pid}.tally").open("w+b") as file:
            file.truncate(_SLOT_BYTES)
            return mmap.mmap(file.fileno(), _SLOT_BYTES)


tally = Tally()


@dataclass(frozen=True)
class Runs:
    """What all processes together have run so far."""

    count: int
    first_at: float
    last_at: float
    processes: int


def read_runs() -> Runs:
    """Sum the slots of every process."""
    slots = [_read_slot(path) for path in scratch_folder().glob("*.tally")]
    used = [slot for slot in slots if slot[0]]
    if not used:
        return Runs(0, 0.0, 0.0, 0)
    return Runs(sum(s[0] for s in used), min(s[1] for s in used), max(s[2] for s in used), len(used))


def _read_slot(path: Path) -> tuple[int, float, float]:
    raw = path.read_bytes()[: _SLOT.size]
    return _SLOT.unpack(raw) if len(raw) == _SLOT.size else (0, 0.0, 0.0)  # just created, still empty


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU used so far by these processes, their descendants and the children they have reaped."""
    return sum(_sum_tree(pid, lambda process: sum(process.cpu_times()[:4])) for pid in pids)


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of these processes and their descendants."""
    return int(sum(_sum_tree(pid, lambda process: process.memory_info().rss) for pid in pids))


def _sum_tree(pid: int, read: Callable[[psutil.Process], float]) -> float:
    """A backend may end while we look, and its CPU move to its parent: then the whole sum is taken again."""
    root = psutil.Process(pid)
    while True:
        try:
            return sum(read(process) for process in [root, *root.children(recursive=True)])
        except psutil.NoSuchProcess:
            if not root.is_running():
                raise


@dataclass(frozen=True)
class ServerCounters:
    """What the PostgreSQL server has spent since it started."""

    cpu_seconds: float
    wal_bytes: int
    commits: int


def read_server(url: str) -> ServerCounters:
    """The counters are the server's, not a database's: while measuring, nothing else may use it."""
    row = fetch_row(
        url,
        "select current_setting('data_directory'),"
        " pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,"
        " (select sum(xact_commit)::bigint from pg_stat_database)",
    )
    postmaster = int((Path(row[0]) / "postmaster.pid").read_text().split()[0])
    return ServerCounters(cpu_seconds([postmaster]), row[1], row[2])
