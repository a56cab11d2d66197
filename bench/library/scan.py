"""Scans beside what no scan can do without: reading the folders and asking for the stat of each file.

Counted is the CPU of this process and of the backends of PostgreSQL that serve it. What PostgreSQL does later, or for
all (vacuum, checkpoints), is told apart.

python -m bench.library.scan --rounds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.engine.sql import execute
from bench.machine import describe_machine
from bench.superuser import superuser_url
from bench.video.report import Demand
from mediamill.app import App, open_app
from mediamill.db.embedded import postmaster_pid
from mediamill.libraries.add import add_library
from mediamill.libraries.scan import scan_library
from mediamill.settings import Settings

FIRST_SHARE, AGAIN_SHARE = 0.25, 0.70
FOLDERS, FILES = 2000, 100
BACKGROUND = (
    "autovacuum",
    "checkpointer",
    "background writer",
    "walwriter",
    "logical replication",
    "io worker",
)
EMPTY = "truncate assets, library_folders, libraries cascade"


@dataclass
class Meter:
    """CPU and wall time of one way to go through the tree, round by round."""

    cpu: list[float] = field(default_factory=list)
    database_cpu: list[float] = field(default_factory=list)
    later_cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    async def run(self, app: App, way: Callable[[], Awaitable[object]]) -> None:
        """Once."""
        backends, others = _database_cpu(app)
        cpu, wall = time.process_time(), time.perf_counter()
        await way()
        self.wall.append(time.perf_counter() - wall)
        own = time.process_time() - cpu
        after = _database_cpu(app)
        self.database_cpu.append(after[0] - backends)
        self.later_cpu.append(after[1] - others)
        self.cpu.append(own + self.database_cpu[-1])

    def told(self, files: int) -> dict[str, float]:
        """The median round."""
        return {
            "files_per_cpu_second": round(files / median(self.cpu)),
            "cpu_us_per_file": round(1e6 * median(self.cpu) / files, 2),
            "database_cpu_us_per_file": round(1e6 * median(self.database_cpu) / files, 2),
            "vacuum_and_checkpoint_cpu_us_per_file": round(1e6 * median(self.later_cpu) / files, 2),
            "files_per_second": round(files / median(self.wall)),
        }

    def share_of(self, bare: Meter) -> float:
        """The median round; each is held against the bare reading just before it, as the machine has its moods."""
        return median(limit / own for limit, own in zip(bare.cpu, self.cpu, strict=True))


def make_tree(root: Path, folders: int, files_each: int) -> None:
    """Empty files: a scan reads none of them."""
    for number in range(folders):
        folder = root / f"{2000 + number % 20}" / f"trip-{number:05}"
        folder.mkdir(parents=True)
        for name in range(files_each):
            (folder / f"IMG_{name:06}.{'mp4' if name % 20 == 0 else 'JPG'}").touch()


def read_bare(root: str) -> int:
    """The limit: every folder, every stat."""
    waiting, files = [root], 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    files += 1
    return files


def measure_scan(
    folder: Path, rounds: int, tell: Callable[[str], None], *, folders: int = FOLDERS
) -> dict[str, Any]:
    """By turns: bare, first scan, bare, again with nothing changed."""
    make_tree(folder / "tree", folders, FILES)
    tell(f"{folders * FILES} files in {folders} folders")
    return asyncio.run(_measure(folder, folders * FILES, rounds, tell))


async def _measure(folder: Path, files: int, rounds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    meters = {name: Meter() for name in ("bare", "first", "bare_again", "again")}
    settings = Settings(data=folder / "data", database_url=None)
    async with open_app(settings, wait_seconds=60) as app:
        for _ in range(rounds):
            await _measure_round(app, folder / "tree", files, meters)
            tell(", ".join(f"{name} {1e6 * meter.cpu[-1] / files:.2f} µs" for name, meter in meters.items()))
    shares = {
        "first": meters["first"].share_of(meters["bare"]),
        "again": meters["again"].share_of(meters["bare_again"]),
    }
    demands = [
        Demand(
            "first scan: share of the bare rate per CPU-second", shares["first"], FIRST_SHARE, at_most=False
        ),
        Demand(
            "scan again: share of the bare rate per CPU-second", shares["again"], AGAIN_SHARE, at_most=False
        ),
    ]
    figures = {
        "files": files,
        **{name: meter.told(files) for name, meter in meters.items()},
        "share_of_bare": {name: round(share, 3) for name, share in shares.items()},
    }
    return {"figures": figures, "demands": [demand.told() for demand in demands]}


async def _measure_round(app: App, root: Path, files: int, meters: dict[str, Meter]) -> None:
    await app.database.pool.execute(EMPTY)
    async with app.database.transaction() as connection:
        slug = await add_library(connection, "Bench", str(root))

    async def bare() -> None:
        assert read_bare(str(root)) == files

    async def scan() -> None:
        counts = await scan_library(app.database, app.settings, slug)
        assert counts.files == files

    await meters["bare"].run(app, bare)
    await meters["first"].run(app, scan)
    admin = superuser_url(app.database.url, app.settings.data_folder)
    await asyncio.to_thread(
        execute, admin, "checkpoint"
    )  # what the first scan left to write is not the next one's
    await meters["bare_again"].run(app, bare)
    await meters["again"].run(app, scan)


def _database_cpu(app: App) -> tuple[float, float]:
    """Of the backends of clients, and of all other processes of PostgreSQL, in seconds."""
    postmaster = postmaster_pid(app.settings.data_folder)
    assert postmaster is not None
    backends = others = 0.0
    for process in psutil.Process(postmaster).children():
        with suppress(psutil.NoSuchProcess):
            times, title = process.cpu_times(), " ".join(process.cmdline())
            if any(name in title for name in BACKGROUND):
                others += times.user + times.system
            else:
                backends += times.user + times.system
    return backends, others


def main() -> int:
    """Measure and print; 1 if a scan costs more than it may."""
    parser = argparse.ArgumentParser(prog="python -m bench.library.scan")
    parser.add_argument("--folders", type=int, default=FOLDERS, help=f"of {FILES} files each")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="bench-library-") as folder:
        told = measure_scan(
            Path(folder), options.rounds, lambda text: print(text, file=sys.stderr), folders=options.folders
        )
    print(json.dumps({"machine": machine, **told}, indent=2))
    return int(not all(demand["met"] for demand in told["demands"]))


if __name__ == "__main__":
    raise SystemExit(main())
