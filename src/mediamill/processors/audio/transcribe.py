"""What is said in a file, by whichever speech model is chosen; an attempt that was interrupted is continued."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mediamill.media.sound import Heard
from mediamill.processors.models.choose import speech_model
from mediamill.processors.models.contract import Segment, Transcript
from mediamill.processors.models.resumable import Listened, ResumableSpeech
from mediamill.processors.settings import read_settings

CHECKPOINT_CHARACTERS = 400_000  # a transcript that is longer is continued from where it had this length


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is. `checkpoint`: give it to the next attempt; None: keep the one you have."""

    percent: float
    checkpoint: dict[str, Any] | None
    heard: Heard | None  # what was found out about the sound; None if another machine listens


OnProgress = Callable[[Progress], None]


def transcribe_file(
    path: Path,
    *,
    language: str | None = None,
    checkpoint: Any = None,
    on_progress: OnProgress = lambda _: None,
) -> Transcript:
    """The transcript of a sound file or of the sound of a video. Without `language`, the setting's is taken.

    Raises NoSoundError for a file without an audio track; music and silence give a transcript without segments.
    """
    model = speech_model()
    language = language or read_settings().speech_language
    if not isinstance(model, ResumableSpeech):
        return model.transcribe(path, language=language, on_segment=lambda _: None)
    work = _Work.continued(model.model, checkpoint)
    found = model.transcribe_from(
        path,
        work.done_seconds,
        language=language or work.language,
        on_segment=work.segments.append,
        on_listened=lambda listened: on_progress(work.progress(listened)),
    )
    return replace(
        found,
        segments=tuple(work.segments),
        language_score=found.language_score if found.language_score is not None else work.language_score,
    )


@dataclass(slots=True)
class _Work:
    """What is known of a file so far, also by earlier attempts."""

    model: str
    done_seconds: float = 0.0
    language: str | None = None
    language_score: float | None = None
    segments: list[Segment] = field(default_factory=list)

    @classmethod
    def continued(cls, model: str, checkpoint: Any) -> _Work:
        """From a checkpoint of this very model; any other, or one that makes no sense, starts anew."""
        try:
            if checkpoint["model"] != model:
                return cls(model)
            return cls(
                model,
                float(checkpoint["done_seconds"]),
                checkpoint["language"],
                checkpoint["language_score"],
                [Segment(float(start), float(end), str(text)) for start, end, text in checkpoint["segments"]],
            )
        except (TypeError, KeyError, ValueError):
            return cls(model)

    def progress(self, listened: Listened) -> Progress:
        heard = listened.heard
        claimed = max(heard.claimed_seconds or 0.0, heard.seconds, 1.0)
        return Progress(min(99.0, 100 * heard.seconds / claimed), self._checkpoint(listened), heard)

    def _checkpoint(self, listened: Listened) -> dict[str, Any] | None:
        if sum(len(segment.text) + 20 for segment in self.segments) > CHECKPOINT_CHARACTERS:
            return None
        return {
            "model": self.model,
            "done_seconds": listened.done_seconds,
            "language": listened.language,
            "language_score": listened.language_score
            if listened.language_score is not None
            else self.language_score,
            "segments": [
                [segment.start_seconds, segment.end_seconds, segment.text] for segment in self.segments
            ],
        }
