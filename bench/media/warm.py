"""What a child process costs: a job in a warm one, a cold start, the first job with its models, memory."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import cv2
import numpy as np

from bench.media.child_jobs import open_child
from mediamill.processors.contract import ProcessorInput
from mediamill.processors.stub import StubImageProcessor
from mediamill.worker.sandbox import ProcessorGaveUpError, SandboxJob

SAMPLES = Path(__file__).parents[2] / "samples"
SAMPLE_OF = {
    "audio": ("voice.ogg", "audio/ogg"),
    "video": ("video.mp4", "video/mp4"),
    "image": ("photo.jpg", "image/jpeg"),
    "document": ("scan.pdf", "application/pdf"),
    "sticker": ("sticker.webp", "image/webp"),
}


async def measure_overhead(scratch: Path, jobs: int) -> dict[str, Any]:
    """What the way into a warm child and back adds to a job."""
    async with open_child("scripted", scratch, watch=False) as child:
        await child.run(SandboxJob())
        noop = [await _time_job(child.sandbox, SandboxJob()) for _ in range(jobs)]
    tiny = await _measure_tiny_image(scratch, jobs)
    return {"jobs": jobs, "noop_ms": _percentiles(noop), "tiny_image": tiny}


async def _measure_tiny_image(scratch: Path, jobs: int) -> dict[str, Any]:
    """The same job in the child and in this process, by turns; the median of the differences is the overhead.

    By the stub, which finds out the type and opens the file: models would take so long that nothing else was seen.
    """
    os.environ["MEDIAMILL_STUB_IMAGE_SECONDS"] = "0"  # children inherit it
    path = scratch / "tiny.png"
    cv2.imwrite(str(path), np.full((32, 32, 3), 200, np.uint8))
    here = StubImageProcessor(("image/*",), 120)
    pairs: list[tuple[float, float]] = []
    async with open_child("stub-image", scratch, watch=False) as child:
        job = SandboxJob(mime_type="image/png", file=path)
        for _ in range(jobs + 2):
            pairs.append((await _time_job(child.sandbox, job), _time_here(here, path, scratch)))
    pairs = pairs[2:]  # the first starts the child
    return {
        "in_child_ms": _percentiles([inside for inside, _ in pairs]),
        "without_child_ms": _percentiles([outside for _, outside in pairs]),
        "overhead_ms_p50": round(1000 * median(inside - outside for inside, outside in pairs), 2),
    }


async def _time_job(sandbox: Any, job: SandboxJob) -> float:
    started = time.perf_counter()
    await sandbox.run(job)
    return time.perf_counter() - started


def _time_here(processor: StubImageProcessor, path: Path, folder: Path) -> float:
    given = ProcessorInput({}, "image/png", path, folder, None, 1, lambda *_, **__: None)
    started = time.perf_counter()
    processor.process(given)
    return time.perf_counter() - started


async def measure_processor(name: str, scratch: Path) -> dict[str, float]:
    """A child from nothing: until it can refuse a job, its first job with the models, its second."""
    file, mime_type = SAMPLE_OF[name]
    job = SandboxJob(mime_type=mime_type, file=SAMPLES / file)
    async with open_child(name, scratch) as child:
        started = time.perf_counter()
        with contextlib.suppress(ProcessorGaveUpError):
            await child.sandbox.run(SandboxJob(mime_type=mime_type, file=scratch / "missing"))
        figures = {"cold_start": (time.perf_counter() - started, _cpu(child))}
        for what in ("first_job", "second_job"):
            before = child.cpu_seconds
            seconds, _ = await child.run(job)
            figures[what] = (seconds, child.cpu_seconds - before)
        told = {f"{what}_seconds": round(wall, 2) for what, (wall, _) in figures.items()}
        told |= {f"{what}_cpu_seconds": round(cpu, 2) for what, (_, cpu) in figures.items()}
        return {**told, "peak_mb": child.peak_mb}


def _cpu(child: Any) -> float:
    child.look()
    spent: float = child.cpu_seconds
    return spent


def _percentiles(seconds: list[float]) -> dict[str, float]:
    return {
        "p50": round(1000 * median(seconds), 3),
        "p95": round(1000 * quantiles(seconds, n=20)[-1], 3),
    }
