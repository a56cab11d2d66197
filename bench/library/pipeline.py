"""Images of a library, from the queue to their proxies by a real worker, beside the processor alone on the same files.

Both have as many children as the pool, and all of those are warm. Counted is whatever takes part: feeding, the worker,
its children, every process of PostgreSQL; of the processor alone, its children.

python -m bench.library.pipeline --rounds 3
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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from multiprocessing.pool import Pool
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import numpy as np
import psutil

from bench.engine.measure import cpu_seconds
from bench.machine import describe_machine
from bench.media.photos import QUALITY, SIZES, make_photo
from bench.video.report import Demand
from mediamill.app import App, open_app
from mediamill.db.embedded import postmaster_pid
from mediamill.libraries.add import add_library
from mediamill.libraries.feed import feed_libraries
from mediamill.libraries.scan import scan_library
from mediamill.processors.contract import Processor, ProcessorInput
from mediamill.processors.registry import load_processor
from mediamill.settings import Settings

SHARE = 0.85
CHILDREN = 2  # as the pool that comes with mediamill
COUNT, QUICK_COUNT, WARM = 160, 16, 8
LOOK_SECONDS, LIMIT_SECONDS = 0.1, 300
RESET = """
update assets set status = 'pending', job_id = null, output = null, width = null, height = null, facts = null,
    proxy_digest = null, search_vector = null
"""
ONLY_SOME = "update assets set status = 'completed' where id > (select min(id) + $1 - 1 from assets)"
LEFT = "select count(*) filter (where status = 'pending'), max(error) from assets"

_processor: Processor | None = None  # of a child


@dataclass(frozen=True)
class Spent:
    """What a run over all images cost: CPU of each that took part."""

    parts: dict[str, float]
    wall: float

    @property
    def cpu(self) -> float:
        """Of all."""
        return sum(self.parts.values())


def make_images(folder: Path, count: int) -> list[Path]:
    """Of 12 megapixels, all different: cut out of larger ones at different places."""
    (width, height), large = SIZES[12], SIZES[24]
    random, made = np.random.default_rng(7), []
    folder.mkdir()
    for number in range(count):
        if number % 40 == 0:
            photo = make_photo(*large, random)
        x, y = (int(random.integers(0, most)) for most in (large[0] - width, large[1] - height))
        made.append(folder / f"IMG_{number:04}.jpg")
        picture = photo[y : y + height, x : x + width]
        cv2.imwrite(str(made[-1]), picture, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return made


def measure_pipeline(
    folder: Path, rounds: int, tell: Callable[[str], None], *, count: int = COUNT
) -> dict[str, Any]:
    """By turns: the processor alone, the whole pipeline."""
    images = make_images(folder / "images", count)
    tell(f"{len(images)} images of 12 megapixels, {sum(one.stat().st_size for one in images) >> 20} MiB")
    return asyncio.run(_measure(folder, images, rounds, tell))


async def _measure(
    folder: Path, images: list[Path], rounds: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    alone, piped = [], []
    settings = Settings(data=folder / "data", database_url=None)
    async with open_app(settings, wait_seconds=60) as app, _worker(app) as worker:
        with _children() as pool:
            await _add(app, images[0].parent)
            _run_alone(pool, images[:WARM], folder / "warm")
            await _run_pipeline(app, worker, min(WARM, len(images)))
            for _ in range(rounds):
                alone.append(_run_alone(pool, images, folder / "alone"))
                piped.append(await _run_pipeline(app, worker, len(images)))
                tell(
                    f"alone {_told(alone[-1], len(images))}, from queue to proxies {_told(piped[-1], len(images))}"
                )
    return _compare(len(images), alone, piped)


def _told(spent: Spent, count: int) -> str:
    return f"{1000 * spent.cpu / count:.1f} ms of CPU each, {count / spent.wall:.1f} a second"


def _compare(count: int, alone: list[Spent], piped: list[Spent]) -> dict[str, Any]:
    """The median of the rounds; each round is held against itself, as the machine may have changed its mind."""
    pairs = list(zip(alone, piped, strict=True))
    shares = {
        "cpu": median(one.cpu / other.cpu for one, other in pairs),
        "wall": median(one.wall / other.wall for one, other in pairs),
    }
    figures = {
        "images": count,
        "children": CHILDREN,
        "alone": _figures(count, alone),
        "pipeline": _figures(count, piped),
        "share_of_alone": {name: round(share, 3) for name, share in shares.items()},
    }
    demands = [
        Demand(
            f"images, claim to proxied: share of the processor alone, by {name}", share, SHARE, at_most=False
        )
        for name, share in shares.items()
    ]
    return {"figures": figures, "demands": [demand.told() for demand in demands]}


def _figures(count: int, spent: list[Spent]) -> dict[str, Any]:
    cpu, wall = median(one.cpu for one in spent), median(one.wall for one in spent)
    parts = {name: median(one.parts[name] for one in spent) for name in spent[0].parts}
    return {
        "cpu_ms_per_image": round(1000 * cpu / count, 2),
        "cpu_ms_per_image_of": {name: round(1000 * part / count, 2) for name, part in parts.items()},
        "images_per_cpu_second": round(count / cpu, 2),
        "images_per_second": round(count / wall, 2),
    }


# -- the processor alone


@contextmanager
def _children() -> Iterator[Pool]:
    with get_context("spawn").Pool(CHILDREN, _load) as pool:
        yield pool


def _load() -> None:
    global _processor
    _processor = load_processor("library-image", (), 120)


def _process(given: tuple[Path, Path]) -> int:
    file, folder = given
    folder.mkdir()
    assert _processor is not None
    output = _processor.process(ProcessorInput({}, None, file, folder, None, 1, lambda *_, **__: None))
    return len(output.files)


def _run_alone(pool: Pool, images: list[Path], out: Path) -> Spent:
    out.mkdir()
    pids = [child.pid for child in active_children() if child.pid is not None]
    work = [(image, out / image.stem) for image in images]
    cpu, wall = cpu_seconds(pids), time.perf_counter()
    made = sum(pool.imap_unordered(_process, work))
    spent = Spent({"children": cpu_seconds(pids) - cpu}, time.perf_counter() - wall)
    assert made == 2 * len(images)
    shutil.rmtree(out)
    return spent


# -- the pipeline


@asynccontextmanager
async def _worker(app: App) -> AsyncIterator[subprocess.Popen[bytes]]:
    """As `mediamill up` would start one, for this pool only."""
    environment = {**os.environ, "MEDIAMILL_DATA": str(app.settings.data), "MEDIAMILL_LOG_LEVEL": "ERROR"}
    environment.pop("MEDIAMILL_DATABASE_URL", None)
    words = [sys.executable, "-m", "mediamill", "worker", "--pools", "library_images", "--gpu", "no"]
    process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        yield process
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def _add(app: App, folder: Path) -> None:
    async with app.database.transaction() as connection:
        slug = await add_library(connection, "Bench", str(folder))
    await scan_library(app.database, app.settings, slug)


async def _run_pipeline(app: App, worker: subprocess.Popen[bytes], count: int) -> Spent:
    """So many of the images, as if they had just been found."""
    pool, data = app.database.pool, app.settings.data_folder
    await pool.execute(RESET)
    await pool.execute(ONLY_SOME, count)
    await pool.execute("vacuum analyze assets")
    shutil.rmtree(data / "libraries", ignore_errors=True)
    before, wall = _cpu_of_parts(app, worker), time.perf_counter()
    assert await feed_libraries(app.database, app.enqueuer, app.settings) == count
    await _until_done(app, worker)
    wall, after = time.perf_counter() - wall, _cpu_of_parts(app, worker)
    made = list((data / "libraries").glob("*/*/*"))
    assert len(made) == 2 * count, made[:4]
    return Spent({name: after[name] - before[name] for name in after}, wall)


def _cpu_of_parts(app: App, worker: subprocess.Popen[bytes]) -> dict[str, float]:
    """So far. Feeding is done here, and looking whether all is done."""
    postmaster = postmaster_pid(app.settings.data_folder)
    assert postmaster is not None
    own = sum(psutil.Process(worker.pid).cpu_times()[:2])
    return {
        "feeding": time.process_time(),
        "worker": own,
        "children": cpu_seconds([worker.pid]) - own,
        "database": cpu_seconds([postmaster]),
    }


async def _until_done(app: App, worker: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            left, error = await app.database.pool.fetchrow(LEFT) or (0, None)
            if error is not None or worker.poll() is not None:
                raise RuntimeError(error or "the worker is gone")
            if not left:
                return
            await asyncio.sleep(LOOK_SECONDS)


def main() -> int:
    """Measure and print; 1 if the engine costs more than it may."""
    parser = argparse.ArgumentParser(prog="python -m bench.library.pipeline")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few images")
    options = parser.parse_args()
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="bench-library-") as folder:
        told = measure_pipeline(
            Path(folder),
            options.rounds,
            lambda text: print(text, file=sys.stderr),
            count=QUICK_COUNT if options.quick else COUNT,
        )
    print(json.dumps({"machine": machine, **told}, indent=2))
    return int(not all(demand["met"] for demand in told["demands"]))


if __name__ == "__main__":
    raise SystemExit(main())
