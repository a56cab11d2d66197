"""What a conversation is told of an image: what was seen and how sure that is, its text, its look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mediamill.processors.models.contract import TextLine
from mediamill.processors.result import Tag

SURE, POSSIBLE = 0.4, 0.15  # scores from which a tag is told as probable, and as possible
MOST_TAGS = 6
MOST_LINES = 500
BLOCK_GAP = 0.8  # of a line's height: a larger gap starts a new block of text


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is told of one image."""

    tags: Sequence[Tag] = ()
    description: str | None = None
    lines: Sequence[TextLine] = ()
    look: str = ""  # one sentence on shape, colours, time and camera
    what: str = "image"
    frames: int = 1
    truncated: bool = False


def describe(seen: Seen) -> str:
    """The whole text, the most important first."""
    parts = [
        f"Animated {seen.what} of {seen.frames} frames." if seen.frames > 1 else "",
        sight_sentence(seen),
        _text_part(text_blocks(seen.lines), seen.what),
        seen.look,
        f"(The file is damaged: a part of the {seen.what} is missing.)" if seen.truncated else "",
    ]
    return "\n".join(part for part in parts if part)


def sight_sentence(seen: Seen) -> str:
    """What the model saw: its own sentence, or its tags by how sure they are."""
    if seen.description and seen.description.strip():
        return seen.description.strip()
    sure, possible = worthy_tags(seen.tags)
    told = []
    if sure:
        told.append(f"Probably: {', '.join(sure)}.")
    if possible:
        told.append(f"Perhaps: {', '.join(possible)}.")
    if not told and any(line.text.strip() for line in seen.lines):
        return f"Text is all that was recognised in this {seen.what}."
    return " ".join(told) or f"Nothing was recognised with confidence in this {seen.what}."


def worthy_tags(tags: Sequence[Tag]) -> tuple[list[str], list[str]]:
    """Labels that are probable, and those that are possible; each label once, the best first."""
    best: dict[str, float] = {}
    for tag in tags:
        label = " ".join(tag.label.split())
        if label:
            best[label] = max(tag.score, best.get(label, 0.0))
    ranked = sorted(best.items(), key=lambda item: -item[1])[:MOST_TAGS]
    sure = [label for label, score in ranked if score >= SURE]
    return sure, [label for label, score in ranked if POSSIBLE <= score < SURE]


def text_blocks(lines: Sequence[TextLine]) -> list[str]:
    """Lines in the order of the reader, pieces of one row joined, blocks apart by an empty line."""
    told: list[str] = []
    before: TextLine | None = None
    for line in lines[:MOST_LINES]:
        text = " ".join(line.text.split())
        if not text:
            continue
        if before is None:
            told.append(text)
        elif _is_same_row(before, line):
            told[-1] = f"{told[-1]}  {text}"
        elif _starts_block(before, line):
            told.extend(("", text))
        else:
            told.append(text)
        before = line
    return told


def _is_same_row(before: TextLine, line: TextLine) -> bool:
    shared = min(before.box[3], line.box[3]) - max(before.box[1], line.box[1])
    height = min(before.box[3] - before.box[1], line.box[3] - line.box[1])
    return line.box[0] >= before.box[2] and height > 0 and shared > height / 2


def _starts_block(before: TextLine, line: TextLine) -> bool:
    height = max(before.box[3] - before.box[1], 1)
    return line.box[1] - before.box[3] > height * BLOCK_GAP or line.box[3] < before.box[1]


def _text_part(blocks: list[str], what: str) -> str:
    if not blocks:
        return ""
    if len(blocks) == 1:
        return f"Text in the {what}: {blocks[0]}"
    return "\n".join([f"Text in the {what}:", *blocks])


def shape(width: int, height: int) -> str:
    """Portrait, landscape or square."""
    if abs(width - height) <= 0.02 * max(width, height):
        return "square"
    return "landscape" if width > height else "portrait"


def look_sentence(
    width: int, height: int, colours: Sequence[str], taken_at: str | None, camera: str | None
) -> str:
    """How the image looks, and when and by what it was taken. Where it was taken is not told."""
    look = f"({shape(width, height).capitalize()}, {width} × {height} pixels"
    if colours:
        look += f", mostly {join_words(colours[:2])}"
    if taken_at:
        look += f"; taken on {taken_at[:10]} at {taken_at[11:16]}"
        look += f" with {camera}" if camera else ""
    elif camera:
        look += f"; taken with {camera}"
    return look + ")"


def join_words(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
