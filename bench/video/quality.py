"""How good an encoded quality is, by ffmpeg's own meters, picture by picture against the source."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from bench.video.clips import FPS, HEIGHT, WIDTH
from bench.video.programs import run_program
from mediamill.processors.transcode.ladder import Rung

SOME = "select=not(mod(n\\,5))"  # of the pictures are looked at by VMAF, which is slow
THREADS = 2
SCORES = {
    "ssim": r"SSIM .*All:([\d.]+)",
    "psnr": r"PSNR .*average:([\d.]+)",
    "vmaf": r"VMAF score: ([\d.]+)",
}


def measure_quality(folder: Path, rung: Rung, clip: Path) -> dict[str, float]:
    """SSIM and PSNR at the rung's own size, against the source scaled by a filter that neither side uses; VMAF as it is
    meant, scaled up to the size of the source."""
    in_turn = f"setpts=N/{FPS}/TB"  # the n-th picture beside the n-th, whatever a demuxer makes of the times
    graph = ";".join(
        [
            f"[0:v]{in_turn},split=3[small1][small2][small3]",
            f"[1:v]{in_turn},split=2[source1][source2]",
            f"[source1]scale={rung.width}:{rung.height}:flags=lanczos+accurate_rnd,split=2[same1][same2]",
            "[small1][same1]ssim[end1]",
            "[small2][same2]psnr[end2]",
            f"[small3]{SOME},scale={WIDTH}:{HEIGHT}:flags=bicubic[large]",
            f"[source2]{SOME}[some]",
            f"[large][some]libvmaf=n_threads={THREADS}[end3]",
        ]
    )
    ends = [word for number in (1, 2, 3) for word in ("-map", f"[end{number}]")]
    said = run_program(
        "ffmpeg",
        *("-allowed_extensions", "ALL", "-i", str(folder / f"{rung.name}.m3u8"), "-i", str(clip)),
        *("-lavfi", graph, *ends, "-fps_mode", "passthrough", "-f", "null", "-"),
    )
    found = {name: float(_found(pattern, said)) for name, pattern in SCORES.items()}
    pieces = folder.glob(f"{rung.name}-*.m4s")
    return {**found, "bytes": sum(path.stat().st_size for path in pieces)}


def _found(pattern: str, said: str) -> str:
    match = re.search(pattern, said)
    if match is None:
        raise RuntimeError(f"ffmpeg did not measure: {said[-1000:]}")
    return match[1]


def count_frames(playlist: Path) -> tuple[int, list[float]]:
    """How many pictures a player gets, and the steps in time between neighbours that are not one picture long."""
    said = run_program(
        "ffprobe",
        *("-v", "error", "-allowed_extensions", "ALL", "-select_streams", "v"),
        *("-show_entries", "packet=pts_time", "-of", "csv=p=0", str(playlist)),
    )
    times = sorted(float(line.strip(",")) for line in said.split())
    steps = [later - earlier for earlier, later in pairwise(times)]
    return len(times), [round(step, 4) for step in steps if abs(step - 1 / FPS) > 0.002]
