"""The circuit breaker: after a few failures nobody tries any more but one, after a pause that grows.

Closed: all is well. Open: nobody tries until the pause is over. Half-open: one try is under way; its end closes the
breaker, or opens it again for twice as long. Pure: it knows neither Redis nor asyncio.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable

FAILURES = 2
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
SPREAD = 0.2  # of a pause is by chance, so that a fleet does not come back in one moment


class BreakerState(enum.StrEnum):
    """Whether to try."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """One per process and server."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, chance: Callable[[], float] = random.random
    ) -> None:
        self.state = BreakerState.CLOSED
        self.opened = 0
        self._clock, self._chance = clock, chance
        self._failures = 0
        self._pause, self._try_at = FIRST_PAUSE_SECONDS, 0.0

    def seconds_to_wait(self) -> float:
        """Until the next try may begin."""
        return max(0.0, self._try_at - self._clock()) if self.state is BreakerState.OPEN else 0.0

    def begin_try(self) -> bool:
        """May somebody try now? While it is half-open, only the one who was told so first."""
        if self.state is BreakerState.OPEN and self.seconds_to_wait() == 0:
            self.state = BreakerState.HALF_OPEN
            return True
        return self.state is BreakerState.CLOSED

    def succeed(self) -> None:
        """A try went well. What was under way when the breaker opened proves nothing any more."""
        if self.state is not BreakerState.OPEN:
            self.state, self._failures, self._pause = BreakerState.CLOSED, 0, FIRST_PAUSE_SECONDS

    def fail(self) -> None:
        """A try went wrong."""
        if self.state is BreakerState.OPEN:
            return
        self._failures += 1
        if self.state is BreakerState.HALF_OPEN or self._failures >= FAILURES:
            self._open()

    def _open(self) -> None:
        if self.state is BreakerState.CLOSED:
            self.opened += 1
        self.state = BreakerState.OPEN
        self._try_at = self._clock() + self._pause * (1 - SPREAD * self._chance())
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
