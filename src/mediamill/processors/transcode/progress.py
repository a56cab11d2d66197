"""What an attempt tells of itself while it runs: the step, how far all of it is, and how far each quality is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mediamill.processors.contract import ReportCall
from mediamill.processors.transcode.quality import Quality

Step = Literal["probe", "thumbnail", "transcode", "master_playlist", "finalize"]

# Where each step begins and ends, in percent of the whole.
PERCENTS: Mapping[Step, tuple[float, float]] = {
    "probe": (0, 1),
    "thumbnail": (1, 4),
    "transcode": (4, 97),
    "master_playlist": (97, 98),
    "finalize": (98, 100),
}


class Progress:
    """Reports; the sound counts for the whole as one more quality, but is not told as one."""

    def __init__(self, report: ReportCall) -> None:
        self._report = report
        self._qualities: Sequence[Quality] = ()
        self._sound: Quality | None = None
        self._total = 1

    def expect(self, qualities: Sequence[Quality], sound: Quality | None, segments: float) -> None:
        """What will be made, of about so many segments each."""
        self._qualities, self._sound, self._total = qualities, sound, max(1, math.ceil(segments))

    def tell(self, step: Step, share: float = 0.0) -> None:
        """How far a step is, from 0 to 1."""
        low, high = PERCENTS[step]
        percent = round(low + (high - low) * min(1.0, share), 2)
        self._report(step, percent, parts=self.parts() if self._qualities else None)

    def tell_segment(self) -> None:
        """One more segment is done (or given up)."""
        working = [one for one in self._qualities if one.state != "skipped"]
        working += [self._sound] if self._sound is not None else []
        done = sum(min(len(one.segments), self._total) for one in working)
        self.tell("transcode", done / (len(working) * self._total) if working else 1.0)

    def parts(self) -> dict[str, Any]:
        """Each quality, as the home of the job shows it."""
        return {one.name: self._part(one) for one in self._qualities}

    def _part(self, quality: Quality) -> dict[str, Any]:
        done = len(quality.segments)
        total = done if quality.state == "completed" else max(self._total, done)
        skipped = quality.state == "skipped"
        return {
            "state": quality.state,
            "segments_total": 0 if skipped else total,
            "segments_done": done,
            "percent": 0.0 if skipped or not total else round(100 * done / total, 1),
            "error": quality.error,
        }
