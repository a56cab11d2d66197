"""Which moments of a video to look at: every scene if there is time to find them, else a frame per window.

Nobody knows beforehand how fast this machine decodes this video. So the scan starts, and once its speed is known
it goes on only if it will end within its share of the time limit; else the window sampler takes over, whose cost does
not grow with the length.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from mediamill.media.errors import DamagedMediaError
from mediamill.media.frames import Footage
from mediamill.processors.video.scenes import Scene, SceneFinder
from mediamill.processors.video.window_sampler import Sample, sample_windows, spread

MOST_MOMENTS = 12
SPEED_KNOWN_SECONDS = 3.0  # of scanning, after which its speed is believed
FRAMES_BETWEEN_CHECKS = 32
MOST_SAVED_SCENES = 2_000  # in a checkpoint or a result

OnPercent = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something to look at: the frame at `at_seconds` stands for all from start to end."""

    start_seconds: float
    end_seconds: float
    at_seconds: float


@dataclass(frozen=True, slots=True)
class Watched:
    """What was found; `scenes` is None if there was no time to look for them, then `samples` are there."""

    end_seconds: float  # of the pictures, as far as they were decoded
    scenes: tuple[Scene, ...] | None
    samples: tuple[Sample, ...] = ()

    def moments(self) -> list[Moment]:
        """At most twelve, evenly chosen."""
        if self.scenes is not None:
            return [
                Moment(scene.start_seconds, scene.end_seconds, scene.best_seconds)
                for scene in spread(self.scenes, MOST_MOMENTS)
            ]
        times = [sample.timestamp_ms / 1000 for sample in self.samples]
        return [Moment(at, at, at) for at in times]

    def save(self) -> dict[str, Any] | None:
        """As JSON; None if it is too much to keep."""
        return asdict(self) if len(self.scenes or ()) <= MOST_SAVED_SCENES else None

    @classmethod
    def restore(cls, saved: Any) -> Watched | None:
        """What `save` gave, in an earlier attempt; None if it makes no sense."""
        try:
            scenes = saved["scenes"]
            return cls(
                float(saved["end_seconds"]),
                None if scenes is None else tuple(Scene(**scene) for scene in scenes),
                tuple(Sample(**sample) for sample in saved["samples"]),
            )
        except (TypeError, KeyError, ValueError):
            return None


def watch(
    footage: Footage, duration_seconds: float | None, budget_seconds: float, on_percent: OnPercent
) -> Watched:
    """Find the moments. Raises DamagedMediaError if no frame can be decoded."""
    scenes, end_seconds = scan_scenes(footage, duration_seconds, budget_seconds, on_percent)
    if scenes is not None:
        watched = Watched(end_seconds, tuple(scenes))
    else:
        length = duration_seconds or end_seconds
        watched = Watched(length, None, tuple(sample_windows(footage, length, MOST_MOMENTS)))
    if not watched.scenes and not watched.samples:
        reason = footage.damage.torn or "none of its frames can be decoded"
        raise DamagedMediaError(f"the video is damaged: {reason}")
    return watched


def scan_scenes(
    footage: Footage, duration_seconds: float | None, budget_seconds: float, on_percent: OnPercent
) -> tuple[list[Scene] | None, float]:
    """All scenes, or None if that would take longer than the budget; and how far the scan came."""
    finder, scenes, end = SceneFinder(), list[Scene](), 0.0
    started = time.monotonic()
    for number, glance in enumerate(footage.glances()):
        scenes += finder.feed(glance)
        end = glance.time_seconds + footage.frame_seconds
        if number % FRAMES_BETWEEN_CHECKS == 0:
            elapsed = time.monotonic() - started
            if elapsed >= budget_seconds or is_too_slow(elapsed, end, duration_seconds, budget_seconds):
                return None, end
            on_percent(min(99.0, 100 * end / max(end, duration_seconds or 2 * end)))
    scenes += finder.finish(end)
    return scenes, end


def is_too_slow(elapsed: float, seen_seconds: float, duration: float | None, budget: float) -> bool:
    """At this speed, will the scan take longer than the budget?"""
    if elapsed < SPEED_KNOWN_SECONDS or duration is None or seen_seconds <= 0:
        return False
    return elapsed * duration / seen_seconds > budget
