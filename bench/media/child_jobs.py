"""Jobs in a sandbox of one child, with the child's CPU time and peak memory."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.media.meters import peak_mb
from mediamill.processors.contract import ProcessorOutput
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob

LOOK_SECONDS = 0.05
# As the pools that come with mediamill: seconds, bytes.
LIMITS = {
    "audio": Limits(300, 2 << 30),
    "video": Limits(600, 3 << 30),
    "image": Limits(120, 2 << 30),
    "document": Limits(120, 2 << 30),
    "sticker": Limits(60, 2 << 30),
    "scripted": Limits(60, 1 << 30),
    "stub-image": Limits(60, 1 << 30),
}


@dataclass
class Child:
    """One sandbox with at most one child, and what its children have used so far."""

    sandbox: Sandbox
    peak_mb: float = 0.0
    _cpu: dict[int, float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        """Of all children that it ever had."""
        return sum(self._cpu.values())

    async def run(self, job: SandboxJob) -> tuple[float, ProcessorOutput]:
        """Wall seconds of one job, and its output."""
        started = time.perf_counter()
        output = await self.sandbox.run(job)
        seconds = time.perf_counter() - started
        self.look()
        return seconds, output

    def look(self) -> None:
        """Read the meters; they are gone with the child."""
        for process in psutil.Process().children():
            with contextlib.suppress(psutil.Error, OSError):
                self._cpu[process.pid] = sum(process.cpu_times()[:4])
                self.peak_mb = max(self.peak_mb, peak_mb(process.pid))


@contextlib.asynccontextmanager
async def open_child(
    processor: str, scratch: Path, limits: Limits | None = None, *, watch: bool = True
) -> AsyncIterator[Child]:
    """Not started yet: that happens with the first job. `watch`: look at it while it works, not only after."""
    given = limits or LIMITS[processor]
    sandbox = Sandbox(processor, size=1, spare=0, limits=given, scratch=scratch / processor)
    (scratch / processor).mkdir(parents=True, exist_ok=True)
    await sandbox.start()
    child = Child(sandbox)
    watching = asyncio.create_task(_watch(child)) if watch else None
    try:
        yield child
    finally:
        if watching is not None:
            watching.cancel()
        await sandbox.close()


async def _watch(child: Child) -> None:
    while True:
        child.look()
        await asyncio.sleep(LOOK_SECONDS)
