"""The processor in a real child process, confined, given up by kill -9 in the middle."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from mediamill.media.hls import check_output
from mediamill.worker.messages import KeptFile
from mediamill.worker.sandbox import Limits, ProcessorCrashedError, Sandbox, SandboxJob, Take
from tests.processors.transcode.attempts import TINY
from tests.processors.transcode.clips import Film, make_clip


class Worker:
    """Takes files away at once, as a worker does, and remembers their facts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.facts = folder, dict[str, dict[str, Any]]()
        self.times: dict[str, int] = {}
        self.news = asyncio.Event()

    def take(self, kept: KeptFile, take_out: Take) -> None:
        shutil.move(take_out({kept.name: kept.path}) / kept.path, self.folder / kept.name)
        size = (self.folder / kept.name).stat().st_size
        self.facts[kept.name] = {**kept.facts, "bytes": size}
        self.times[kept.name] = self.times.get(kept.name, 0) + 1
        self.news.set()

    async def wait_for(self, name: str) -> None:
        async with asyncio.timeout(120):
            while name not in self.facts:
                self.news.clear()
                await self.news.wait()


@pytest.mark.spec("V6", "E7")
async def test_after_kill_9_of_the_child_another_goes_on_and_makes_nothing_twice(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", Film(width=854, height=480, seconds=8.0))
    (tmp_path / "kept").mkdir()
    worker = Worker(tmp_path / "kept")
    limits = Limits(timeout_seconds=300, memory_bytes=2 << 30)
    sandbox = Sandbox("transcode", size=1, limits=limits, scratch=tmp_path / "scratch")
    await sandbox.start()
    try:
        job = SandboxJob(payload=TINY, file=clip)
        running = asyncio.create_task(sandbox.run(job, on_kept=worker.take))
        await worker.wait_for("480p-00001.m4s")
        os.kill(next(iter(sandbox._children)).pid, signal.SIGKILL)
        with pytest.raises(ProcessorCrashedError):
            await running
        assert "master.m3u8" not in worker.facts
        again = SandboxJob(payload=TINY, file=clip, kept=worker.facts, attempt=2)
        output = await sandbox.run(again, on_kept=worker.take)
    finally:
        await sandbox.close()
    assert output.result["duration_seconds"] == 8.0
    assert set(worker.times.values()) == {1}
    sizes = {path.name: path.stat().st_size for path in worker.folder.iterdir()}
    assert check_output(sizes, lambda name: (worker.folder / name).read_text()) == []
