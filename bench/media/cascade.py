"""The stand-ins of photographs beside the peers': CPU time in interleaved rounds, and what the outputs are worth.

A ratio is taken between figures of the same round, then the median over the rounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import cv2
import numpy as np
from PIL import Image

from bench.media.cascade_peers import OURS, PREVIEW, PREVIEW_SIDE, THUMBNAIL, WAYS

VIPS = [name for name in WAYS if name.startswith("vips")]
Tell = Callable[[str], None]


def compare_cascades(photos: Sequence[Path], folder: Path, rounds: int, tell: Tell) -> dict[str, Any]:
    """Every way in a fresh process, in turn; who begins changes from round to round."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    names = list(WAYS)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            runs[name].append(run_once(name, folder / name, photos))
        tell(f"cascade: round {number + 1} of {rounds}")
    return {
        "photos": len(photos),
        "photo_mb": [round(photo.stat().st_size / 1e6, 1) for photo in photos],
        "rounds": rounds,
        "cpu_ms_per_photo": {
            name: _spread([1000 * run["cpu_seconds"] / len(photos) for run in each])
            for name, each in runs.items()
        },
        "peak_mb": {name: round(median(run["peak_mb"] for run in each)) for name, each in runs.items()},
        "outputs": {name: judge_outputs(photos, folder / name) for name in WAYS},
        "ratios": compute_ratios({n: [run["cpu_seconds"] for run in each] for n, each in runs.items()}),
    }


def run_once(name: str, folder: Path, photos: Sequence[Path]) -> dict[str, float]:
    """One way over all photos."""
    command = [sys.executable, "-m", "bench.media.cascade_peers", name, str(folder), *map(str, photos)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compute_ratios(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The peer's CPU time over ours: above 1, ours takes less. The best libvips is chosen anew in each round."""

    def against(*peers: str) -> float:
        best = [min(each) for each in zip(*(seconds[peer] for peer in peers), strict=True)]
        return round(float(median(a / b for a, b in zip(best, seconds[OURS], strict=True))), 3)

    return {
        "cascade_vs_pillow_cpu": against("pillow_draft"),
        "cascade_vs_pillow_default_cpu": against("pillow_default"),
        "cascade_vs_pillow_gap1_cpu": against("pillow_gap1"),
        "cascade_vs_best_vips_cpu": against(*VIPS),
        **{f"cascade_vs_{name}_cpu": against(name) for name in VIPS},
    }


def judge_outputs(photos: Sequence[Path], folder: Path) -> dict[str, float]:
    """Bytes of both files, and how near the preview is to a reduction that cuts no corner."""
    likeness = [_compare_preview(photo, folder / photo.stem / PREVIEW) for photo in photos[:2]]
    return {
        "preview_bytes": round(mean((folder / one.stem / PREVIEW).stat().st_size for one in photos)),
        "thumbnail_bytes": round(mean((folder / one.stem / THUMBNAIL).stat().st_size for one in photos)),
        "preview_psnr_db": round(mean(psnr for psnr, _ in likeness), 2),
        "preview_ssim": round(mean(ssim for _, ssim in likeness), 4),
    }


def _compare_preview(photo: Path, preview: Path) -> tuple[float, float]:
    """Against every pixel decoded and reduced by Lanczos in one step, before any encoding."""
    found, wanted = Image.open(preview).convert("RGB"), _reference(photo)
    ours, theirs = np.asarray(found, np.float32), np.asarray(wanted, np.float32)
    height, width = (min(sides) for sides in zip(ours.shape[:2], theirs.shape[:2], strict=True))
    return _psnr(ours[:height, :width], theirs[:height, :width]), _ssim(
        ours[:height, :width], theirs[:height, :width]
    )


def _reference(photo: Path) -> Image.Image:
    with Image.open(photo) as image:
        image.load()  # before `thumbnail` can ask the decoder to reduce
        image.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE), Image.Resampling.LANCZOS, reducing_gap=None)
        return image.convert("RGB")


def _psnr(one: Any, other: Any) -> float:
    return float(10 * np.log10(255**2 / np.mean((one - other) ** 2)))


def _ssim(one: Any, other: Any) -> float:
    """Structural similarity of the brightness, with the usual window and constants."""
    one, other = (cv2.cvtColor(each, cv2.COLOR_RGB2GRAY) for each in (one, other))

    def blur(image: Any) -> Any:
        return cv2.GaussianBlur(image, (11, 11), 1.5)

    mean_one, mean_other = blur(one), blur(other)
    spread_one, spread_other = blur(one * one) - mean_one**2, blur(other * other) - mean_other**2
    shared = blur(one * other) - mean_one * mean_other
    steady, lively = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    above = (2 * mean_one * mean_other + steady) * (2 * shared + lively)
    below = (mean_one**2 + mean_other**2 + steady) * (spread_one + spread_other + lively)
    return float(np.mean(above / below))


def _spread(figures: Sequence[float]) -> list[float]:
    """Median, lowest, highest."""
    return [round(figure, 1) for figure in (median(figures), min(figures), max(figures))]
