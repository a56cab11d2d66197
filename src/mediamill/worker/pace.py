"""How fast a lane ends jobs, and so how many it should claim ahead: a little when they are short, none when long."""

from __future__ import annotations

import time

AHEAD_SECONDS = 0.25  # claim ahead what the pool runs in this time
MOST_AHEAD = 500
MOST_UNSETTLED = 1000  # of what has ended and is not written down: a claim is quicker than a disk that stalls
IDLE_AHEAD_SECONDS = 1.0  # what was claimed ahead and has no slot for so long is for others
SAMPLE_SECONDS = 0.05


class Pace:
    """Jobs per second: up at once, down slowly."""

    def __init__(self) -> None:
        self._rate, self._at, self._ended = 0.0, time.monotonic(), 0

    def ahead(self, ended: int) -> int:
        """How many to have in the buffer, given how many have ended in all."""
        now = time.monotonic()
        if now - self._at >= SAMPLE_SECONDS:
            rate = (ended - self._ended) / (now - self._at)
            self._rate = rate if rate > self._rate else 0.7 * self._rate + 0.3 * rate
            self._at, self._ended = now, ended
        return min(MOST_AHEAD, int(self._rate * AHEAD_SECONDS))

    def stall(self, ended: int) -> None:
        """The slots are busy with long jobs: nothing ahead until some more have ended."""
        self._rate, self._at, self._ended = 0.0, time.monotonic(), ended
