"""What it costs that finished segments are kept: hashed, put on the disk, noted in PostgreSQL under the job's claim."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import psutil

from mediamill.app import App, open_app
from mediamill.db.embedded import postmaster_pid
from mediamill.engine.claim import Claimer
from mediamill.engine.model import ClaimedJob
from mediamill.engine.pools import list_pools
from mediamill.engine.workers import register_worker
from mediamill.settings import Settings
from mediamill.staging.kept import NewKept, keep_file
from mediamill.videos.add import add_video
from mediamill.videos.model import NewVideo, source_name

LEASE_SECONDS = 1800.0
Way = Callable[[App, ClaimedJob, Path], Awaitable[None]]


@dataclass
class Meter:
    """CPU of this process and wall time, of one way to take files away."""

    cpu_seconds: float = 0.0
    walls: list[float] = field(default_factory=list)

    async def run(self, way: Way, app: App, job: ClaimedJob, path: Path) -> None:
        """One file."""
        cpu, began = time.process_time(), time.perf_counter()
        await way(app, job, path)
        self.walls.append(time.perf_counter() - began)
        self.cpu_seconds += time.process_time() - cpu

    def told(self) -> dict[str, float]:
        """For each file."""
        return {
            "cpu_ms": round(1000 * self.cpu_seconds / len(self.walls), 2),
            "wall_ms": round(1000 * median(self.walls), 2),
        }


async def measure_checkpoints(segments: list[Path], folder: Path, count: int) -> dict[str, Any]:
    """Real segments, over and over: kept, and merely moved away, by turns."""
    os.environ |= {"MEDIAMILL_DATA": str(folder / "data"), "MEDIAMILL_LOG_LEVEL": "ERROR"}
    os.environ.pop("MEDIAMILL_DATABASE_URL", None)
    kept, moved = Meter(), Meter()
    async with open_app(Settings(), wait_seconds=60) as app:
        job = await _claim(app)
        scratch = app.settings.data_folder / "scratch-of-bench"
        scratch.mkdir()
        database = _database_cpu(app)
        for number in range(count):
            for meter, way in ((kept, _keep), (moved, _move)):
                path = scratch / f"{number}"
                shutil.copyfile(segments[number % len(segments)], path)  # as the child has just written it
                await meter.run(way, app, job, path)
        database = _database_cpu(app) - database
    sizes = [path.stat().st_size for path in segments]
    return {
        "files": count,
        "mean_bytes": sum(sizes) // len(sizes),
        "kept": {**kept.told(), "database_cpu_ms": round(1000 * database / count, 2)},
        "moved": moved.told(),
    }


def _database_cpu(app: App) -> float:
    """Of all processes of PostgreSQL so far, in seconds."""
    postmaster = postmaster_pid(app.settings.data_folder)
    assert postmaster is not None
    return sum(sum(process.cpu_times()[:2]) for process in psutil.Process(postmaster).children())


async def _keep(app: App, job: ClaimedJob, path: Path) -> None:
    """As the worker does it with what its child gave away."""
    new = await asyncio.to_thread(_measured, path)
    await keep_file(app.database, app.settings.data_folder, job, new, LEASE_SECONDS)


def _measured(path: Path) -> NewKept:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    index = int(path.name)
    facts = {"quality": "720p", "index": index, "seconds": 4.0}
    return NewKept(f"720p-{index:05}.m4s", path, path.stat().st_size, digest, facts)


async def _move(app: App, job: ClaimedJob, path: Path) -> None:
    os.rename(path, f"{path}.gone")  # noqa: PTH104


async def _claim(app: App) -> ClaimedJob:
    """A video's job, in our hands."""
    video_id = uuid4()
    path = app.settings.data_folder / source_name(video_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"as if")
    new = NewVideo(id=video_id, title="bench", source_name="bench.mp4", source_bytes=5, mime_type="video/mp4")
    async with app.database.transaction() as connection:
        await add_video(connection, app.enqueuer, app.settings, new)
        worker_id = await register_worker(connection, name="bench")
    async with app.database.transaction() as connection:
        pool = next(pool for pool in await list_pools(connection) if pool.name == "transcode")
        (job,) = await Claimer(worker_id, "bench", app.engine.kinds).claim_jobs(connection, pool, 1)
    return job
