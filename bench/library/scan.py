"""Scans beside what no scan can do without: reading the folders and asking for the stat of each file.

Counted is the CPU of this process and of the backends of PostgreSQL that serve it. What PostgreSQL does later, or for
all (vacuum, checkpoints), is told apart.

python -m bench.library.scan --rounds 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.machine import describe_machine
from mediamill.app import App, open_app
from mediamill.db.embedded import postmaster_pid
from mediamill.libraries.add import add_library
from mediamill.libraries.scan import scan_library
from mediamill.settings import Settings

FIRST_SHARE, AGAIN_SHARE = 0.25, 0.70
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
    """CPU and wall time of one way to go through the tree."""

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


async def measure_scan(folder: Path, folders: int, files_each: int, rounds: int) -> dict[str, Any]:
    """By turns: bare, first scan, again with nothing changed."""
    os.environ |= {"MEDIAMILL_DATA": str(folder / "data"), "MEDIAMILL_LOG_LEVEL": "ERROR"}
    os.environ.pop("MEDIAMILL_DATABASE_URL", None)
    root, files = folder / "tree", folders * files_each
    make_tree(root, folders, files_each)
    meters = {"bare": Meter(), "first": Meter(), "again": Meter()}
    async with open_app(Settings(), wait_seconds=60) as app:
        for _ in range(rounds):
            await _measure_round(app, root, files, meters)
    told = {name: meter.told(files) for name, meter in meters.items()}
    bare = told["bare"]["files_per_cpu_second"]
    shares = {name: round(told[name]["files_per_cpu_second"] / bare, 3) for name in ("first", "again")}
    return {"files": files, "folders": folders, **told, "share_of_bare": shares}


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
    await app.database.pool.execute(
        "checkpoint"
    )  # what the first scan left to be written is not the next one's
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
    parser.add_argument("--folders", type=int, default=2000)
    parser.add_argument("--files", type=int, default=100, help="in each folder")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="bench-library-") as folder:
        told = asyncio.run(measure_scan(Path(folder), options.folders, options.files, options.rounds))
    print(json.dumps({"machine": machine, **told}, indent=2))
    shares = told["share_of_bare"]
    return int(shares["first"] < FIRST_SHARE or shares["again"] < AGAIN_SHARE)


if __name__ == "__main__":
    raise SystemExit(main())
