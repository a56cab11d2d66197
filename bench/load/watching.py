"""What grows or does not: memory of every process, tables, dead rows, WAL, latency by the minute."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import psutil

from mediamill.db.connection import Database

TABLES = ("jobs", "finished_jobs", "events", "job_keys", "throughput", "counters", "workers", "dead_jobs")
MEGABYTE = 1024**2

SIZES = """
select relname as name, pg_table_size(relid) as bytes, pg_indexes_size(relid) as index_bytes, n_live_tup as live,
    n_dead_tup as dead, autovacuum_count as vacuums
from pg_stat_user_tables where relname = any($1)
"""
# By the ends of the last while, and of first attempts only: whoever is tried again waits on purpose.
LATENCY = """
select count(*) as ended,
    percentile_cont(array[0.5, 0.99]) within group (order by extract(epoch from finished_at - created_at))
        filter (where attempts = 1) as of_first,
    max(extract(epoch from finished_at - created_at)) filter (where attempts = 1) as longest
from finished_jobs where finished_at >= now() - make_interval(secs => $1)
"""


@dataclass(slots=True)
class Watcher:
    """Looks at a mill that runs: `server` and `database` are pids, workers are children of the server."""

    database: Database
    server: int
    postmaster: int
    samples: list[dict[str, Any]] = field(default_factory=list)
    minutes: list[dict[str, Any]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _last_wal: int = 0

    async def sample(self) -> None:
        """Memory and sizes, now."""
        async with self.database.connection() as connection:
            rows = await connection.fetch(SIZES, list(TABLES))
            waiting = await connection.fetchval("select count(*) from jobs")
            wal = int(
                await connection.fetchval("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
            )
        self.samples.append(
            {
                "at_seconds": round(time.monotonic() - self._began, 1),
                "memory_mb": self._memory(),
                "waiting": waiting,
                "wal_bytes": wal,
                "tables": {
                    row["name"]: {
                        key: row[key] for key in ("bytes", "index_bytes", "live", "dead", "vacuums")
                    }
                    for row in rows
                },
            }
        )

    async def minute(self, seconds: float, added: int) -> dict[str, Any]:
        """The last while, in one line."""
        async with self.database.connection() as connection:
            row = await connection.fetchrow(LATENCY, seconds)
        assert row is not None
        [p50, p99] = row["of_first"] or [0.0, 0.0]
        now = self.samples[-1]
        wal, self._last_wal = now["wal_bytes"] - (self._last_wal or now["wal_bytes"]), now["wal_bytes"]
        line = {
            "minute": len(self.minutes) + 1,
            "added_per_second": round(added / seconds, 1),
            "ended_per_second": round(row["ended"] / seconds, 1),
            "p50_ms": round(float(p50) * 1000, 1),
            "p99_ms": round(float(p99) * 1000, 1),
            "longest_ms": round(float(row["longest"] or 0) * 1000, 1),
            "waiting": now["waiting"],
            "wal_mb": round(wal / MEGABYTE, 1),
            "memory_mb": now["memory_mb"],
            "jobs_mb": _megabytes(now, "jobs"),
            "finished_jobs_mb": _megabytes(now, "finished_jobs"),
            "events_mb": _megabytes(now, "events"),
        }
        self.minutes.append(line)
        return line

    def _memory(self) -> dict[str, float]:
        """Without what is shared with other processes; PostgreSQL with its shared memory counted once."""
        server = psutil.Process(self.server)
        below = server.children(recursive=True)
        workers = [process for process in below if "worker" in _words(process)]
        others = [process for process in below if process not in workers]
        return {
            "server": _private(server),
            "worker": sum(map(_private, workers)),
            "children": sum(map(_private, others)),
            "postgresql": _proportional(psutil.Process(self.postmaster)),
        }


def _megabytes(sample: dict[str, Any], table: str) -> float:
    found = sample["tables"][table]
    return float(round((found["bytes"] + found["index_bytes"]) / MEGABYTE, 1))


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _private(process: psutil.Process) -> float:
    try:
        return round(process.memory_full_info().uss / MEGABYTE, 1)
    except psutil.NoSuchProcess:
        return 0.0


def _proportional(root: psutil.Process) -> float:
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return round(total / MEGABYTE, 1)
