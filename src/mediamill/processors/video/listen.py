"""What is said in a video, as far as there is time to listen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.media.errors import MediaError
from mediamill.media.sound import NoSoundError
from mediamill.processors.audio.transcribe import Progress, transcribe_file
from mediamill.processors.models.contract import Segment, Transcript
from mediamill.processors.video.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Speech:
    """`until_seconds`: the rest was not listened to. `trouble`: why nothing could be heard."""

    has_sound: bool
    transcript: Transcript | None = None
    until_seconds: float | None = None
    trouble: str | None = None


class _OutOfTimeError(Exception):
    """Ends the transcription from inside, between two pieces."""


def listen(path: Path, attempt: Attempt) -> Speech:
    """The transcript, continued from an earlier attempt; cut where the time is up."""

    def on_progress(progress: Progress) -> None:
        if progress.checkpoint is not None:
            attempt.speech = progress.checkpoint
            attempt.keep("listening", progress.percent)
        if attempt.seconds_left("listening") <= 0 and attempt.speech is not None:
            raise _OutOfTimeError

    try:
        transcript = transcribe_file(path, checkpoint=attempt.speech, on_progress=on_progress)
    except NoSoundError:
        return Speech(has_sound=False)
    except MediaError as error:
        return Speech(has_sound=True, trouble=error.message)
    except _OutOfTimeError:
        assert attempt.speech is not None
        partial = _from_checkpoint(attempt.speech)
        return Speech(True, partial, until_seconds=partial.duration_seconds)
    return Speech(True, transcript)


def _from_checkpoint(saved: dict[str, Any]) -> Transcript:
    segments = tuple(Segment(float(start), float(end), str(text)) for start, end, text in saved["segments"])
    return Transcript(
        segments,
        language=saved["language"],
        language_score=saved["language_score"],
        duration_seconds=float(saved["done_seconds"]),
        speech_seconds=sum(segment.end_seconds - segment.start_seconds for segment in segments),
        model=saved["model"],
    )
