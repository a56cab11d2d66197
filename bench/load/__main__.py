"""Measure sustained load: jobs at three quarters of the capacity for ten minutes, and what grows meanwhile.

python -m bench.load
python -m bench.load --minutes 1 --warm-up 60   (a small run)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.load.report import judge, print_minute, print_verdict
from bench.load.watching import Watcher
from bench.load.work import POOLS, Feeder
from bench.machine import describe_machine
from mediamill.db.connection import Database
from mediamill.db.embedded import EmbeddedServer, postmaster_pid
from mediamill.db.migrate import upgrade
from mediamill.engine.pools import set_pools
from mediamill.testing import chaos_kinds

RESULTS = Path(__file__).parents[1] / "results"
KEEP_SECONDS = 120  # finished jobs and events are kept so long, so that the run is long beside it


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and how much of the capacity."""

    minutes: int
    warm_up_seconds: float
    share: float = 0.75
    settle_seconds: float = 10
    calibrate_seconds: float = 30
    minute_seconds: float = 60
    samples_a_minute: int = 6
    ahead: int = 4_000  # jobs that wait while the capacity is looked for


def main() -> int:
    """Measure, print, write; 1 if something grew."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument(
        "--warm-up", type=int, default=180, help="seconds of the same load before it is measured"
    )
    options = parser.parse_args()
    machine = describe_machine()
    print(f"load before the run: {machine['load_before']} on {machine['cores']} cores", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="mediamill-load-"))
    try:
        figures = asyncio.run(measure(folder, Plan(options.minutes, options.warm_up)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = {"date": datetime.now(UTC).date().isoformat(), "machine": machine, **figures}
    print_verdict(figures)
    name = "load.json" if options.minutes >= 10 else "load-quick.json"
    (RESULTS / name).write_text(json.dumps(told, indent=1) + "\n")
    return 0 if figures["flat"] else 1


async def measure(folder: Path, plan: Plan) -> dict[str, Any]:
    """Look for the capacity, then keep up a share of it and watch what grows."""
    async with _mill(folder) as (database, server):
        feeder = Feeder(database)
        print(f"looking for the capacity for {plan.calibrate_seconds:g} s", flush=True)
        await feeder.saturate(plan.settle_seconds, plan.ahead)  # children started, plans kept
        await feeder.until_done(120)
        capacity = await feeder.saturate(plan.calibrate_seconds, plan.ahead)
        await feeder.until_done(120)
        rate = capacity * plan.share
        print(
            f"capacity {capacity:,.0f} jobs/s; now {rate:,.0f} jobs/s, warm-up {plan.warm_up_seconds} s",
            flush=True,
        )
        await feeder.feed(rate, plan.warm_up_seconds)
        postmaster = postmaster_pid(folder)
        assert postmaster is not None
        watcher = Watcher(database, server, postmaster)
        feeder.late_ticks = 0
        watching = asyncio.create_task(_watch(watcher, feeder, plan))
        await feeder.feed(rate, plan.minutes * plan.minute_seconds)
        await watching
        await feeder.until_done(60)
    return {
        "capacity_per_second": round(capacity, 1),
        "rate_per_second": round(rate, 1),
        "kept_seconds": KEEP_SECONDS,
        "late_ticks": feeder.late_ticks,
        "minutes": watcher.minutes,
        **judge(watcher.samples),
        "samples": watcher.samples,
    }


async def _watch(watcher: Watcher, feeder: Feeder, plan: Plan) -> None:
    began, length = time.monotonic(), plan.minute_seconds
    await watcher.sample()
    await watcher.minute(length, 0)
    watcher.minutes.clear()
    for minute in range(plan.minutes):
        added = feeder.added
        for part in range(1, plan.samples_a_minute + 1):
            due = began + (minute + part / plan.samples_a_minute) * length
            await asyncio.sleep(max(due - time.monotonic(), 0))
            await watcher.sample()
        print_minute(await watcher.minute(length, feeder.added - added))


@asynccontextmanager
async def _mill(folder: Path) -> AsyncIterator[tuple[Database, int]]:
    """A whole `mediamill up` with one worker process on an embedded database: the database, and the server's pid."""
    use = await asyncio.to_thread(EmbeddedServer(folder).start)
    await upgrade(use.url)
    database = await Database.open(use.url, connections=4, name="load")
    async with database.transaction() as connection:
        await connection.execute(chaos_kinds.TABLE)
        await set_pools(connection, POOLS, ["scripted"])
    process = subprocess.Popen(  # noqa: ASYNC220 - it is quick
        [sys.executable, "-m", "mediamill", "up", "--workers", "1"],
        env=_environment(folder),
        stdout=(folder / "said.txt").open("wb"),
        stderr=subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(120):
            while "is up: " not in (folder / "said.txt").read_text():  # noqa: ASYNC110 - another process says it
                await asyncio.sleep(0.1)
        yield database, process.pid
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 60)
        await database.close()
        await asyncio.to_thread(use.close)


def _environment(folder: Path) -> dict[str, str]:
    ours = {key: value for key, value in os.environ.items() if not key.startswith("MEDIAMILL_")}
    kept = str(KEEP_SECONDS / 3600)
    return {
        **ours,
        "MEDIAMILL_DATA": str(folder),
        "MEDIAMILL_PORT": "0",
        "MEDIAMILL_LOG_LEVEL": "WARNING",
        "MEDIAMILL_FINISHED_KEEP_HOURS": kept,
        "MEDIAMILL_EVENTS_KEEP_HOURS": kept,
        "MEDIAMILL_JANITOR_SECONDS": "20",
    }


if __name__ == "__main__":
    sys.exit(main())
