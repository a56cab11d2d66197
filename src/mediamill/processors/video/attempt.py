"""One attempt at one video: its share of the time, its progress, and what earlier attempts found already."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.video.look import Look
from mediamill.processors.video.scenes import SceneRules
from mediamill.processors.video.watch import Watched

Part = Literal["finding scenes", "looking at frames", "listening"]

PERCENTS: Mapping[Part, tuple[float, float]] = {
    "finding scenes": (0, 50),
    "looking at frames": (50, 70),
    "listening": (70, 100),
}
# Shares of the time limit at which each part must have ended, so that what was found is told in time.
SHARES: Mapping[Part, float] = {"finding scenes": 0.25, "looking at frames": 0.55, "listening": 0.85}


class Attempt:
    """Knows the time, reports, and keeps the checkpoint."""

    def __init__(self, given: ProcessorInput, timeout_seconds: float) -> None:
        self._given, self._timeout_seconds = given, timeout_seconds
        self._started = time.monotonic()
        self._told: tuple[Part, int] | None = None
        self.watched: Watched | None = None
        self.looks: dict[float, Look] = {}  # by the time of the frame
        self.speech: dict[str, Any] | None = None
        self._restore(given.checkpoint)

    def seconds_left(self, part: Part) -> float:
        """How long this part may still take."""
        return SHARES[part] * self._timeout_seconds - (time.monotonic() - self._started)

    def report(self, part: Part, percent: float) -> None:
        """How far a part is; only whole percents are told."""
        low, high = PERCENTS[part]
        whole = int(low + (high - low) * percent / 100)
        if self._told != (part, whole):
            self._told = part, whole
            self._given.report(part, whole)

    def keep(self, part: Part, percent: float) -> None:
        """Report, with all that was found so far as the checkpoint."""
        low, high = PERCENTS[part]
        self._given.report(part, low + (high - low) * percent / 100, checkpoint=self._save())

    def _save(self) -> dict[str, Any]:
        return {
            "rules": SceneRules().segmentation_version,
            "watched": self.watched.save() if self.watched else None,
            "looks": [[at, look.save()] for at, look in self.looks.items()],
            "speech": self.speech,
        }

    def _restore(self, saved: Any) -> None:
        """A checkpoint of other rules, or one that makes no sense, is not used."""
        try:
            self.speech = saved["speech"]
            if saved["rules"] == SceneRules().segmentation_version:
                self.watched = Watched.restore(saved["watched"])
                self.looks = {float(at): Look.restore(look) for at, look in saved["looks"]}
        except (TypeError, KeyError, ValueError, AttributeError):
            self.watched, self.looks = None, {}
