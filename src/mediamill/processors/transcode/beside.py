"""Encoders side by side: each quality in a thread of its own, while the next pictures are decoded and scaled.

One thread for each encoder costs less in all than several threads inside of each, and makes the same bytes every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Queue
from typing import Any

from av.video.frame import VideoFrame

from mediamill.processors.transcode.quality import Quality, QualityEncoder

AHEAD = 2  # pictures that may wait for one encoder: they take memory, and room in the processor's cache


class Beside:
    """One encoder's thread: it is told what QualityEncoder is told. What goes wrong there is raised here."""

    def __init__(self, encoder: QualityEncoder, on_segment: Callable[[], None]) -> None:
        self._encoder, self._on_segment = encoder, on_segment
        self._steps: Queue[Callable[[], object] | None] = Queue(AHEAD)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=encoder.quality.name, daemon=True)
        self._thread.start()

    @property
    def quality(self) -> Quality:
        """What it makes."""
        return self._encoder.quality

    @property
    def is_large(self) -> bool:
        """Does it take much memory?"""
        return self._encoder.is_large

    def begin(self, index: int) -> None:
        """The pictures that follow are those of this segment."""
        self._put(lambda: self._encoder.begin(index))

    def feed(self, ticks: int, picture: VideoFrame) -> None:
        """One more picture."""
        self._put(lambda: self._encoder.feed(ticks, picture))

    def finish(self, end: int, facts: Mapping[str, Any]) -> None:
        """The segment ends here; it is told when it is written."""

        def write() -> None:
            self._encoder.finish(end, facts)
            self._on_segment()

        self._put(write)

    def wait(self) -> None:
        """Until all that was told is done."""
        self._steps.join()
        self._check()

    def close(self) -> None:
        """The thread ends, after what it was told."""
        self._steps.put(None)
        self._thread.join()

    def _put(self, step: Callable[[], object]) -> None:
        self._check()
        self._steps.put(step)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            try:
                if self._error is None:
                    step()
            except BaseException as error:
                self._error = error
            finally:
                self._steps.task_done()
