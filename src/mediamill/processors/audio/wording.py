"""A transcript as a person reads it in a chat. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mediamill.processors.models.contract import Segment, Transcript

SHORT_SECONDS = 60.0  # up to this, one plain text; longer ones get paragraphs with times
PAUSE_SECONDS = 2.0  # begins a paragraph …
PARAGRAPH_SECONDS = 45.0  # … and so does the first sentence after this
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "।")
_WITHOUT_SPACES = {"zh", "yue", "ja", "th", "lo", "km", "my", "bo"}


def word_transcript(transcript: Transcript) -> str:
    """The text that a conversation gets."""
    if not transcript.segments:
        what = "No speech" if transcript.speech_seconds == 0 else "No intelligible speech"
        return f"[{what} in this recording ({clock(transcript.duration_seconds)})]"
    if transcript.duration_seconds <= SHORT_SECONDS:
        return _joined(transcript.segments, transcript.language)
    return "\n\n".join(
        f"[{clock(paragraph[0].start_seconds)}] {_joined(paragraph, transcript.language)}"
        for paragraph in paragraphs(transcript.segments)
    )


def paragraphs(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Segments that belong together: until somebody pauses, or a sentence ends after a while."""
    together: list[Segment] = []
    for segment in segments:
        if together and _is_break(together, segment):
            yield together
            together = []
        together.append(segment)
    if together:
        yield together


def _is_break(together: list[Segment], segment: Segment) -> bool:
    last = together[-1]
    if segment.start_seconds - last.end_seconds >= PAUSE_SECONDS:
        return True
    long = last.end_seconds - together[0].start_seconds >= PARAGRAPH_SECONDS
    return long and last.text.endswith(_SENTENCE_ENDS)


def _joined(segments: Iterable[Segment], language: str | None) -> str:
    return ("" if language in _WITHOUT_SPACES else " ").join(segment.text for segment in segments)


def clock(seconds: float) -> str:
    """`1:05`, `1:02:03`."""
    minutes, whole = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"
