"""What a conversation is told of a video: its shape, what is to be seen when, and what is said. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mediamill.processors.audio.wording import SHORT_SECONDS, clock, word_transcript
from mediamill.processors.image.wording import text_blocks, worthy_tags
from mediamill.processors.models.contract import Sight, TextLine, Transcript
from mediamill.processors.models.spoken_languages import language_name

MOST_TEXT_CHARACTERS = 300  # of one moment; all of it is in the facts


@dataclass(frozen=True, slots=True)
class Told:
    """One moment: a scene, or a single frame (then start and end are the same)."""

    start_seconds: float
    end_seconds: float
    sight: Sight
    lines: Sequence[TextLine] = ()


@dataclass(frozen=True, slots=True)
class VideoStory:
    """All that is told of one video."""

    duration_seconds: float | None
    width: int | None = None
    height: int | None = None
    scene_count: int | None = None  # None: nobody looked for scenes
    moments: Sequence[Told] = ()
    description: str | None = None  # of a model that watched all of it
    has_sound: bool = False
    transcript: Transcript | None = None
    heard_until_seconds: float | None = None  # the rest was not listened to: no time was left
    picture_trouble: str | None = None
    sound_trouble: str | None = None


def describe_video(story: VideoStory) -> str:
    """The whole text."""
    parts = [
        headline(story),
        f"(Its pictures cannot be shown: {story.picture_trouble}.)" if story.picture_trouble else "",
        story.description.strip() if story.description else "",
        *moment_lines(story.moments),
        speech_part(story),
    ]
    return "\n".join(part for part in parts if part)


def headline(story: VideoStory) -> str:
    """`Video, 0:42, 1280×720, 3 scenes.`"""
    words = ["Video"]
    if story.duration_seconds is not None:
        words.append(clock(max(1.0, story.duration_seconds)) if story.duration_seconds > 0 else "0:00")
    if story.width and story.height:
        words.append(f"{story.width}×{story.height}")
    if story.scene_count is not None:
        words.append("1 scene" if story.scene_count == 1 else f"{story.scene_count} scenes")
    elif story.moments:
        words.append(f"{len(story.moments)} sampled frames")
    return ", ".join(words) + "."


def moment_lines(moments: Sequence[Told]) -> list[str]:
    """A line each; scenes that look the same share one, and text that stays on the screen is told once."""
    rows: list[tuple[float, float, str]] = []
    before = ("", "")
    for moment in moments:
        sight, text = seen(moment.sight), written(moment.lines)
        if rows and (sight, text) == before and moment.end_seconds > moment.start_seconds:
            rows[-1] = (rows[-1][0], moment.end_seconds, rows[-1][2])
            continue
        new_text = "" if text == before[1] else text
        told = "; ".join(part for part in (sight, new_text) if part)
        told = told or ("the same text" if text else "nothing was recognised")
        rows.append((moment.start_seconds, moment.end_seconds, told))
        before = (sight, text)
    return [f"[{span(start, end)}] {told}" for start, end, told in rows]


def seen(sight: Sight) -> str:
    """The model's sentence, or its tags by how sure it is."""
    if sight.description and sight.description.strip():
        return " ".join(sight.description.split())
    sure, possible = worthy_tags(sight.tags)
    parts = [
        f"probably: {', '.join(sure)}" if sure else "",
        f"perhaps: {', '.join(possible)}" if possible else "",
    ]
    return "; ".join(part for part in parts if part)


def written(lines: Sequence[TextLine]) -> str:
    """The text in a frame, in one line."""
    text = " / ".join(line for line in text_blocks(lines) if line)
    if len(text) > MOST_TEXT_CHARACTERS:
        text = text[:MOST_TEXT_CHARACTERS].rstrip() + " …"
    return f"text: {text}" if text else ""


def span(start: float, end: float) -> str:
    """`0:00–0:14`, or one time for a single frame."""
    return clock(start) if clock(start) == clock(end) else f"{clock(start)}–{clock(end)}"


def speech_part(story: VideoStory) -> str:
    """What is said, in which language, and how much of it was listened to."""
    if story.sound_trouble:
        return f"(Its sound cannot be heard: {story.sound_trouble}.)"
    if not story.has_sound:
        return "Without sound."
    if story.transcript is None:
        return ""
    until = story.heard_until_seconds
    notes = [
        language_name(story.transcript.language) or "",
        f"up to {clock(until)}" if until is not None else "",
    ]
    note = ", ".join(word for word in notes if word)
    if not story.transcript.segments:
        return "No speech." if until is None else f"No speech up to {clock(until)}."
    head = f"Speech ({note}):" if note else "Speech:"
    separator = "\n" if story.transcript.duration_seconds > SHORT_SECONDS else " "
    return f"{head}{separator}{word_transcript(story.transcript)}"
