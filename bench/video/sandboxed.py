"""The same ladder as a worker runs it: in a warm child process with limits, its files taken away as they come."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.media.child_jobs import open_child
from bench.video.ours import PAYLOAD
from mediamill.worker.messages import KeptFile
from mediamill.worker.sandbox import Limits, SandboxJob, Take

LIMITS = Limits(43_200, 4 << 30)  # as the pool that comes with mediamill


async def measure_sandboxed(clip: Path, warm_up: Path, folder: Path) -> dict[str, Any]:
    """A short clip first: the child is there, and has loaded what it needs."""
    taken = folder / "taken"
    taken.mkdir(parents=True)

    def take(kept: KeptFile, take_out: Take) -> None:
        (take_out({kept.name: kept.path}) / kept.path).rename(taken / kept.name)

    async with open_child("transcode", folder, LIMITS, watch=False) as child:
        await child.sandbox.run(SandboxJob(PAYLOAD, "video/mp4", warm_up), on_kept=take)
        child.look()
        cpu, own, began = child.cpu_seconds, time.process_time(), time.perf_counter()
        output = await child.sandbox.run(SandboxJob(PAYLOAD, "video/mp4", clip), on_kept=take)
        wall, own = time.perf_counter() - began, time.process_time() - own
        child.look()
        made = [one["name"] for one in output.result["qualities"] if one["state"] == "completed"]
        return {
            "qualities": made,
            "files": len(list(taken.iterdir())),
            "cpu_seconds": round(child.cpu_seconds - cpu, 2),
            "worker_cpu_seconds": round(own, 2),
            "wall_seconds": round(wall, 1),
            "peak_mb": child.peak_mb,
            "limit_mb": LIMITS.memory_bytes >> 20,
        }
