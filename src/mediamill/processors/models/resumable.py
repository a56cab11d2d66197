"""Speech models that can go on where an earlier attempt at the same file ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from mediamill.media.sound import Heard
from mediamill.processors.models.contract import OnSegment, Transcript


@dataclass(frozen=True, slots=True)
class Listened:
    """How far it is: all up to `done_seconds` is transcribed, `heard` tells what was read."""

    done_seconds: float
    heard: Heard
    language: str | None
    language_score: float | None


OnListened = Callable[[Listened], None]


@runtime_checkable
class ResumableSpeech(Protocol):
    """A SpeechModel with this method is told what is known already, and tells how far it is."""

    def transcribe_from(
        self,
        path: Path,
        start_seconds: float,
        *,
        language: str | None,
        on_segment: OnSegment,
        on_listened: OnListened,
    ) -> Transcript:
        """Only what is said after `start_seconds`, a `done_seconds` that was told before."""
