"""Starts the children of one sandbox. After a child that could not be started it pauses, each time for longer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from importlib.metadata import EntryPoint

from mediamill.processors.registry import runs_programs
from mediamill.worker.failures import ProcessorStartError
from mediamill.worker.scratch import Home
from mediamill.worker.spawn import ChildPlan, Limits
from mediamill.worker.warm_child import WarmChild

LONGEST_PAUSE_SECONDS = 30.0
PACES = "model-servers"  # beside the homes of all sandboxes


def pause_seconds(failures: int) -> float:
    """How long to wait after so many in a row."""
    return min(LONGEST_PAUSE_SECONDS, 0.1 * 2.0 ** min(failures, 10))  # no number holds 2.0 ** 1024


class ChildStarter:
    """For one processor. Each child gets a folder in the home folder of the sandbox."""

    def __init__(
        self,
        processor: str,
        point: EntryPoint,
        home: Home,
        *,
        mime_types: tuple[str, ...],
        start_seconds: float,
    ) -> None:
        self._processor, self._point, self._home = processor, point, home
        self._mime_types, self._start_seconds = mime_types, start_seconds
        self._numbers = itertools.count(1)
        self._failures = 0
        self._pause: asyncio.TimerHandle | None = None

    @property
    def paused(self) -> bool:
        """Has the last child failed to start, just now?"""
        return self._pause is not None

    def start(
        self,
        limits: Limits,
        on_ready: Callable[[WarmChild], None],
        on_gone: Callable[[WarmChild, Exception], None],
    ) -> WarmChild:
        """A child that begins to load the processor."""
        mark = f"{self._home.name}.{next(self._numbers)}."
        plan = ChildPlan(
            self._processor,
            self._point.value,
            mark,
            limits,
            self._start_seconds,
            self._home.path / f"child-{mark}",
            self._mime_types,
            runs_programs(self._point),
            self._home.path.parent / PACES,
        )
        try:
            plan.temporary_folder.mkdir(mode=0o700, parents=True)
            return WarmChild(plan, on_ready, on_gone)
        except OSError as error:
            raise ProcessorStartError(f"no child process can be started: {error}") from error

    def note_success(self) -> None:
        """A child is ready: the next pause is a short one again."""
        self._failures = 0

    def pause(self, then: Callable[[], None]) -> None:
        """A child could not be started. `then` is called when it is time to try again."""
        self._failures += 1
        if self._pause is None:
            loop, seconds = asyncio.get_running_loop(), pause_seconds(self._failures)
            self._pause = loop.call_later(seconds, self._resume, then)

    def _resume(self, then: Callable[[], None]) -> None:
        self._pause = None
        then()

    def close(self) -> None:
        """A pause that has begun does not end any more."""
        if self._pause is not None:
            self._pause.cancel()
