"""An encoder that is killed with -9 in the middle and goes on: what is lost, and whether anything shows."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from bench.video.ladders import clip_rungs
from bench.video.ours import SEGMENT_SECONDS
from bench.video.programs import Spent, await_end, measure
from bench.video.quality import count_frames

LOOK_SECONDS = 0.005


def measure_resuming(clip: Path, folder: Path, seconds: int) -> dict[str, Any]:
    """Once whole, once in two halves."""
    whole_folder, cut_folder = folder / "whole", folder / "cut"
    whole = measure(_command(clip, whole_folder))
    names = [rung.name for rung in clip_rungs()]
    segments = len(names) * -(-seconds // SEGMENT_SECONDS)
    first = _run_and_kill(clip, cut_folder, segments // 2)
    had = _segments(cut_folder)
    second = measure(_command(clip, cut_folder))
    assert json.loads(second.said.splitlines()[-1])["result"]["qualities"]
    lost = first.cpu_seconds + second.cpu_seconds - whole.cpu_seconds
    counts = {name: count_frames(cut_folder / "kept" / f"{name}.m3u8") for name in names}
    same = [_digest(whole_folder, name) == _digest(cut_folder, name) for name in _segments(whole_folder)]
    return {
        "segments": segments,
        "segments_at_the_kill": len(had),
        "whole_cpu_seconds": round(whole.cpu_seconds, 2),
        "killed_cpu_seconds": round(first.cpu_seconds, 2),
        "resumed_cpu_seconds": round(second.cpu_seconds, 2),
        "lost_cpu_seconds": round(lost, 2),
        "lost_seconds_of_video": round(lost / whole.cpu_seconds * seconds, 2),
        "overhead": round(lost / whole.cpu_seconds, 3),
        "pictures": {name: count for name, (count, _) in counts.items()},
        "gaps": {name: gaps for name, (_, gaps) in counts.items()},
        "segments_equal_to_the_whole": f"{sum(same)} of {len(same)}",
    }


def is_seamless(told: dict[str, Any], frames: int) -> bool:
    """Does every quality have all its pictures, at even steps?"""
    return not any(told["gaps"].values()) and set(told["pictures"].values()) == {frames}


def _command(clip: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.video.ours", str(clip), str(folder)]


def _run_and_kill(clip: Path, folder: Path, after: int) -> Spent:
    """Half a segment after so many are kept: neither the best nor the worst time to die."""
    with TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(_command(clip, folder), stdout=said, stderr=subprocess.STDOUT)
        first_at = None
        while (kept := len(_segments(folder))) < after:
            if kept and first_at is None:
                first_at = time.perf_counter()
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                raise RuntimeError("it ended before it could be killed")
            time.sleep(LOOK_SECONDS)
        encoding = time.perf_counter() - first_at if first_at else 0
        time.sleep(encoding / max(1, after // len(clip_rungs())) / 2)
        os.kill(process.pid, signal.SIGKILL)  # not by Popen, which would reap it when it has ended already
        return await_end(process, said.fileno(), began, -signal.SIGKILL)


def _segments(folder: Path) -> list[str]:
    """Of pictures; those whose facts are noted count as kept."""
    named = (path.stem for path in (folder / "kept").glob("*p-*.m4s.facts"))
    return sorted(name for name in named if name[0].isdigit())


def _digest(folder: Path, name: str) -> bytes:
    return hashlib.sha256((folder / "kept" / name).read_bytes()).digest()
