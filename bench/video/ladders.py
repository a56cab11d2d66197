"""Ladders in turns: ours, ffmpeg's single commands, one ffmpeg per quality. CPU time, quality, bytes."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.video.clips import FPS, HEIGHT, WIDTH
from bench.video.ffmpeg_ladders import AS_OURS, PER_QUALITY, SINGLE, per_quality
from bench.video.programs import measure
from bench.video.quality import measure_quality
from mediamill.processors.transcode.ladder import Rung, rungs_for

OURS = "mediamill"
ONE_CORE = {f"{OURS}, one core": OURS, "chained, one core": "chained"}  # and one thread for each encoder
TOLERANCE = 0.995  # quality that is lower than this share of another's is not the same quality
SAME_PICTURES = {
    "chained, its own threads": "chained",
    "chained, one thread each": "chained",
    PER_QUALITY: "split",
    **ONE_CORE,
}  # not looked at twice
Tell = Callable[[str], None]
Run = dict[str, float]


def clip_rungs() -> tuple[Rung, ...]:
    """The ladder of our clips."""
    return rungs_for(WIDTH, HEIGHT, float(FPS))


def thread_count() -> int:
    """As many as our encoder uses on this machine, up to its most."""
    return min(8, len(os.sched_getaffinity(0)))


def compare_ladders(clip: Path, folder: Path, rounds: int, tell: Tell) -> dict[str, Any]:
    """Interleaved rounds; the quality of what the last round made."""
    ways = [OURS, *SINGLE, *AS_OURS, PER_QUALITY, *ONE_CORE]
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    for number in range(rounds):
        at = number % len(ways)
        for way in ways[at:] + ways[:at]:
            runs[way].append(run_way(way, clip, folder / _slug(way)))
        tell(f"{clip.stem}, round {number + 1}: " + _tell_round({way: runs[way][-1] for way in ways}))
    looks = {way: look_at(way, clip, folder / _slug(way)) for way in ways if way not in SAME_PICTURES}
    tell(f"{clip.stem}: quality measured")
    return summarise(runs, looks | {way: looks[same] for way, same in SAME_PICTURES.items()})


def run_way(way: str, clip: Path, folder: Path) -> Run:
    """One ladder, from nothing, in fresh processes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cores, way = (1, ONE_CORE[way]) if way in ONE_CORE else (None, way)
    if way == OURS:
        spent = measure([sys.executable, "-m", "bench.video.ours", str(clip), str(folder)], cores)
        told = json.loads(spent.said.splitlines()[-1])
        return {
            "cpu_seconds": spent.cpu_seconds - told["pictures_cpu_seconds"],
            "job_cpu_seconds": told["job_cpu_seconds"] - told["pictures_cpu_seconds"],
            "pictures_cpu_seconds": told["pictures_cpu_seconds"],
            "wall_seconds": spent.wall_seconds,
            "peak_mb": spent.peak_mb,
        }
    build = per_quality if way == PER_QUALITY else {**SINGLE, **AS_OURS}[way]
    commands = build(clip, folder, clip_rungs(), cores or thread_count())
    all_spent = [measure(command, cores) for command in commands]
    return {
        "cpu_seconds": sum(spent.cpu_seconds for spent in all_spent),
        "wall_seconds": sum(spent.wall_seconds for spent in all_spent),
        "peak_mb": max(spent.peak_mb for spent in all_spent),
    }


def look_at(way: str, clip: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Quality and bytes of each rung."""
    files = folder / "kept" if way == OURS else folder
    return {rung.name: measure_quality(files, rung, clip) for rung in clip_rungs()}


def summarise(runs: dict[str, list[Run]], looks: dict[str, Any]) -> dict[str, Any]:
    """Medians, and our CPU time over the others', round by round."""
    best = _best_single(runs, looks)
    pictures = [run["pictures_cpu_seconds"] for run in runs[OURS]]
    whole = [run["cpu_seconds"] + more for run, more in zip(runs[OURS], pictures, strict=True)]
    ours = [run["cpu_seconds"] for run in runs[OURS]]
    return {
        "ways": {way: {**_medians(each), "qualities": looks[way]} for way, each in runs.items()},
        "runs": {way: [_rounded(run) for run in each] for way, each in runs.items()},
        "best_single": best,
        "ratios": {
            "cpu_vs_best_single": _ratio(ours, runs[best]),
            "cpu_vs_one_per_quality": _ratio(ours, runs[PER_QUALITY]),
            "cpu_with_pictures_vs_best_single": _ratio(whole, runs[best]),
            "job_cpu_vs_best_single": _ratio([run["job_cpu_seconds"] for run in runs[OURS]], runs[best]),
            "cpu_vs_one_that_searches_as_ours": min(_ratio(ours, runs[way]) for way in AS_OURS),
            "cpu_vs_chained_on_one_core": _ratio(ours, runs["chained, one core"]),
            "cpu_both_on_one_core": _ratio(
                [run["cpu_seconds"] for run in runs[f"{OURS}, one core"]], runs["chained, one core"]
            ),
            "ssim_vs_best_single": _worst(looks[OURS], looks[best], "ssim"),
            "vmaf_vs_best_single": _worst(looks[OURS], looks[best], "vmaf"),
            "bytes_vs_best_single": _all_bytes(looks[OURS]) / _all_bytes(looks[best]),
        },
        "spread": {"cpu_vs_best_single": _spread(ours, runs[best])},
    }


def _best_single(runs: dict[str, list[Run]], looks: dict[str, Any]) -> str:
    """The cheapest whose pictures are as good as ours."""
    good = [
        way
        for way in SINGLE
        if all(_worst(looks[way], looks[OURS], score) >= TOLERANCE for score in ("ssim", "vmaf"))
    ]
    return min(good or SINGLE, key=lambda way: statistics.median(run["cpu_seconds"] for run in runs[way]))


def _ratio(ours: Sequence[float], theirs: Sequence[Run]) -> float:
    return statistics.median(mine / run["cpu_seconds"] for mine, run in zip(ours, theirs, strict=True))


def _spread(ours: Sequence[float], theirs: Sequence[Run]) -> list[float]:
    each = [mine / run["cpu_seconds"] for mine, run in zip(ours, theirs, strict=True)]
    return [round(min(each), 3), round(max(each), 3)]


def _worst(mine: Any, other: Any, score: str) -> float:
    """Of all qualities, the one that compares worst."""
    return min(float(mine[name][score] / other[name][score]) for name in mine)


def _all_bytes(look: Any) -> float:
    return float(sum(each["bytes"] for each in look.values()))


def _medians(each: Sequence[Run]) -> Run:
    return _rounded({name: statistics.median(run[name] for run in each) for name in each[0]})


def _rounded(run: Run) -> Run:
    return {name: round(value, 2) for name, value in run.items()}


def _tell_round(runs: dict[str, Run]) -> str:
    return ", ".join(f"{way} {run['cpu_seconds']:.1f}" for way, run in runs.items()) + " CPU s"


def _slug(way: str) -> str:
    return way.replace(",", "").replace(" ", "-")
