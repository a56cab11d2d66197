"""Large files through the real processors, each in a fresh child: does memory stay flat, and what does it cost?

The same processor has a small file first, in the same child: what the large one adds to that peak is its own.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.media.big_files import make_huge_photo, make_sound, make_video
from bench.media.cascade import run_once
from bench.media.cascade_peers import OURS
from bench.media.child_jobs import LIMITS, open_child
from bench.media.warm import SAMPLE_OF, SAMPLES
from mediamill.worker.sandbox import ProcessorGaveUpError, SandboxJob

CRF = 14  # about the bit rate of a good camera
ALLOWED_SECONDS = 3600.0
WINDOWS_SECONDS = 40.0  # a processor with so little time does not scan a gigabyte


async def measure_sound(folder: Path, size_bytes: int) -> dict[str, Any]:
    """The transcription of a long file in which hardly anybody speaks."""
    path = folder / "long.wav"
    seconds = make_sound(SAMPLES / "voice.ogg", path, size_bytes)
    told, result = await run_large("audio", path, "audio/wav", folder)
    path.unlink()
    facts = result["facts"]
    return {**told, "media_seconds": seconds, "speech_seconds": facts["speech_seconds"]}


async def measure_video(folder: Path, size_bytes: int) -> dict[str, Any]:
    """The description of a long video, once with all its scenes and once without the time for them."""
    path = folder / "long.mp4"
    seconds = make_video(SAMPLES / "voice.ogg", folder, path, size_bytes, crf=CRF)
    figures: dict[str, Any] = {}
    for way, seconds_to_plan in (("scenes", ALLOWED_SECONDS), ("windows", WINDOWS_SECONDS)):
        told, result = await run_large("video", path, "video/mp4", folder, seconds_to_plan)
        told |= {"media_seconds": seconds, "sampling": result["facts"]["sampling"]}
        figures[f"video_{way}"] = told
    path.unlink()
    return figures


async def measure_photo(folder: Path, photo: Path, megapixels: int) -> dict[str, Any]:
    """The stand-ins alone in a process, and the whole processor in its child."""
    path = folder / "huge.jpg"
    make_huge_photo(photo, path, megapixels)
    alone = run_once(OURS, folder / "huge", [path])
    told, _ = await run_large("image", path, "image/jpeg", folder)
    size = {"megapixels": megapixels}
    path.unlink()
    return {
        "photo_proxies": {**size, "peak_mb": alone["peak_mb"], "cpu_seconds": round(alone["cpu_seconds"], 2)},
        "photo_processor": {**size, **told},
    }


async def run_large(
    processor: str, path: Path, mime_type: str, folder: Path, seconds_to_plan: float = ALLOWED_SECONDS
) -> tuple[dict[str, Any], Any]:
    """A sample, then the large file, in one child: figures, and the result of the large one.

    `seconds_to_plan`: the time limit that the processor is told. It is not held to it, since a busy machine is slow.
    """
    sample, sample_type = SAMPLE_OF[processor]
    payload = {"previews": True}
    limits = replace(LIMITS[processor], timeout_seconds=seconds_to_plan)
    async with open_child(processor, folder, limits) as child:
        with contextlib.suppress(ProcessorGaveUpError):  # starts the child
            await child.run(SandboxJob(payload, sample_type, folder / "missing"))
        child.sandbox.limits = replace(limits, timeout_seconds=ALLOWED_SECONDS)
        await child.run(SandboxJob(payload, sample_type, SAMPLES / sample))
        peak, cpu = child.peak_mb, child.cpu_seconds
        seconds, output = await child.run(SandboxJob(payload, mime_type, path))
        told = {
            "file_mb": _megabytes(path),
            "peak_mb": child.peak_mb,
            "peak_of_sample_mb": peak,
            "grown_mb": round(child.peak_mb - peak, 1),
            "limit_mb": limits.memory_bytes >> 20,
            "cpu_seconds": round(child.cpu_seconds - cpu, 1),
            "wall_seconds": round(seconds, 1),
        }
        return told, output.result


def _megabytes(path: Path) -> int:
    return round(path.stat().st_size / 1e6)
