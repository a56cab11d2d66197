"""What was asked for beside what was measured, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.video.clips import FPS
from bench.video.resuming import is_seamless

SAME_QUALITY = 0.995
FLAT_MB = 32.0
DISK_SPEED = 0.9


@dataclass(frozen=True, slots=True)
class Demand:
    """One line."""

    what: str
    measured: float
    asked: float
    at_most: bool

    @property
    def is_met(self) -> bool:
        """Judged as measured, not as rounded."""
        return self.measured <= self.asked if self.at_most else self.measured >= self.asked

    def told(self) -> dict[str, Any]:
        """For the file of results."""
        sign = "at most" if self.at_most else "at least"
        return {
            "what": self.what,
            "measured": round(self.measured, 4),
            "asked": f"{sign} {self.asked:g}",
            "met": self.is_met,
        }


def demands_of(found: dict[str, Any]) -> list[Demand]:
    """Of all parts that were measured."""
    lines: list[Demand] = []
    for clip, told in found.get("ladders", {}).items():
        ratios = told["ratios"]
        same = max(ratios["ssim_vs_best_single"], ratios["vmaf_vs_best_single"])
        lines += [
            Demand(
                f"{clip}: CPU to the best single ffmpeg ({told['best_single']})",
                ratios["cpu_vs_best_single"],
                1.0,
                True,
            ),
            Demand(f"{clip}: CPU to one ffmpeg per quality", ratios["cpu_vs_one_per_quality"], 0.75, True),
            Demand(f"{clip}: SSIM or VMAF to it, worst quality", same, SAME_QUALITY, False),
            Demand(f"{clip}: bytes to it", ratios["bytes_vs_best_single"], 1.005, True),
        ]
    if resuming := found.get("resuming"):
        seamless = is_seamless(resuming, resuming["seconds"] * FPS)
        lines.append(Demand("resumed: pictures all there, at even steps (1: yes)", float(seamless), 1, False))
    if upload := found.get("upload"):
        lines += [
            Demand("upload: speed to a plain copy with fsync", upload["vs_copy"], DISK_SPEED, False),
            Demand("upload: memory the server adds, MB", upload["server_added_mb"], FLAT_MB, True),
        ]
    return lines


def print_report(found: dict[str, Any]) -> None:
    """Tables for people."""
    for clip, told in found.get("ladders", {}).items():
        print_ladder(clip, told)
    for part in ("sandboxed", "resuming", "checkpoints", "upload"):
        if part in found:
            print(f"\n{part}")
            for name, value in found[part].items():
                print(f"  {name:<32}{value}")
    print(f"\n{'asked for':<66}{'measured':>10}{'limit':>18}")
    for demand in demands_of(found):
        told = demand.told()
        print(
            f"{told['what']:<66}{told['measured']:>10.3f}{told['asked']:>18}  {'met' if told['met'] else 'NOT MET'}"
        )


def print_ladder(clip: str, told: dict[str, Any]) -> None:
    """CPU, and the quality of each rung."""
    names = list(told["ways"]["mediamill"]["qualities"])
    print(f"\n{clip:<28}{'CPU s':>8}{'wall s':>8}{'MB peak':>9}  " + "".join(f"{name:>24}" for name in names))
    for way, figures in told["ways"].items():
        looks = (
            f"{look['ssim']:.4f} {look['vmaf']:5.1f} {look['bytes'] / 1000:>7.0f}kB"
            for look in figures["qualities"].values()
        )
        print(
            f"{way:<28}{figures['cpu_seconds']:>8.2f}{figures['wall_seconds']:>8.1f}{figures['peak_mb']:>9.0f}  "
            + "".join(f"{look:>24}" for look in looks)
        )
    for name, ratio in told["ratios"].items():
        print(f"  {name:<40}{ratio:.3f}")
