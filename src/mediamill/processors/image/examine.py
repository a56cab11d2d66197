"""An image, examined: models look at it and read it, numbers give its colours; the source is decoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mediamill.media.images import (
    ANIMATED,
    WHITE,
    Picture,
    Pixels,
    later_frames,
    read_picture,
    to_pixels,
)
from mediamill.processors.image.colours import Colour, dominant_colours
from mediamill.processors.image.wording import shape
from mediamill.processors.models import choose
from mediamill.processors.models.contract import Sight, TextLine, TextReader, VisionModel
from mediamill.processors.result import Tag

READ_SIDE = 2000  # small print is legible
LOOK_SIDE = 1024  # more than any model looks at
COLOUR_SIDE = 128
FRAMES = 3  # of an animation are looked at
MOST_LINES, MOST_CHARACTERS = 200, 500  # of the lines in the facts
MOST_TAGS = 50
BRIGHT, DARK_GREY = 200, (64, 64, 64)


class Eyes:
    """The two models that images need, chosen by setting and loaded when the first image comes."""

    def __init__(self, vision: VisionModel | None = None, reader: TextReader | None = None) -> None:
        self._vision, self._reader = vision, reader

    @property
    def vision(self) -> VisionModel:
        """Who says what is to be seen."""
        self._vision = self._vision or choose.vision_model()
        return self._vision

    @property
    def reader(self) -> TextReader:
        """Who reads text."""
        self._reader = self._reader or choose.text_reader()
        return self._reader


@dataclass(frozen=True, slots=True)
class Examined:
    """All that was found out about an image."""

    picture: Picture
    sight: Sight
    lines: tuple[TextLine, ...]
    colours: tuple[Colour, ...]
    models: tuple[str, ...]

    @property
    def frames(self) -> int:
        """Of an animation; 1 for still images."""
        facts = self.picture.facts
        return facts.pages if facts.format in ANIMATED else 1

    def facts(self) -> dict[str, Any]:
        """As JSON, bounded."""
        source = self.picture.facts
        return {
            "width": source.width,
            "height": source.height,
            "orientation": shape(source.width, source.height),
            "format": source.format,
            "bits": source.bits,
            "alpha": source.has_alpha,
            "truncated": source.truncated,
            **({"frames": self.frames} if self.frames > 1 else {}),
            **({"pages": source.pages} if source.pages > 1 and self.frames == 1 else {}),
            "colours": [asdict(colour) for colour in self.colours],
            "exif": source.exif.facts(),
            "text_lines": [_line_fact(line, self.picture) for line in self.lines[:MOST_LINES]],
        }


def examine(path: Path, mime_type: str, caption: str, eyes: Eyes) -> Examined:
    """Decode once, look, read. Of an animation a few frames."""
    picture = read_picture(path, mime_type, READ_SIDE)
    pictures = [picture, *later_frames(path, mime_type, READ_SIDE, FRAMES, picture.facts)]
    if eyes.vision.network:  # what is asked of others costs time and money
        sights = [eyes.vision.look(_pixels(picture, LOOK_SIDE), caption)]
    else:
        sights = [eyes.vision.look(_pixels(frame, LOOK_SIDE), caption) for frame in pictures]
    lines = merge_lines([eyes.reader.read(_pixels(frame, READ_SIDE)) for frame in pictures])
    sight = merge_sights(sights)
    models = (*sight.models, eyes.reader.model)
    return Examined(picture, sight, lines, tuple(dominant_colours(_opaque(picture))), models)


def merge_sights(sights: Sequence[Sight]) -> Sight:
    """What was seen in several frames: each label once, with its best score."""
    if len(sights) == 1:
        return sights[0]
    best: dict[str, Tag] = {}
    for tag in (tag for sight in sights for tag in sight.tags):
        if tag.label not in best or tag.score > best[tag.label].score:
            best[tag.label] = tag
    tags = sorted(best.values(), key=lambda tag: -tag.score)[:MOST_TAGS]
    described = next((sight.description for sight in sights if sight.description), None)
    models = dict.fromkeys(model for sight in sights for model in sight.models)
    return Sight(tuple(tags), described, tuple(models))


def merge_lines(frames: Sequence[Sequence[TextLine]]) -> tuple[TextLine, ...]:
    """The text of several frames: what a frame repeats is not told again."""
    merged = list(frames[0])
    known = {_letters(line.text) for line in merged}
    for lines in frames[1:]:
        new = [line for line in lines if _letters(line.text) not in known]
        known.update(_letters(line.text) for line in new)
        merged.extend(new)
    return tuple(merged)


def _letters(text: str) -> str:
    return "".join(text.casefold().split())


def _pixels(picture: Picture, side: int) -> Pixels:
    return to_pixels(picture, side, _background(picture))


def _background(picture: Picture) -> tuple[int, int, int]:
    """White writing without a background would not be seen on white."""
    if not picture.image.hasalpha():
        return WHITE
    opaque = _opaque(picture)
    return DARK_GREY if opaque.size and opaque.mean() > BRIGHT else WHITE


def _opaque(picture: Picture) -> Pixels:
    """The pixels that can be seen, as one row if some cannot."""
    if not picture.image.hasalpha():
        return to_pixels(picture, COLOUR_SIDE)
    small = picture.image.thumbnail_image(COLOUR_SIDE, height=COLOUR_SIDE, size="down", no_rotate=True)
    pixels = small.colourspace("srgb").numpy()
    seen: Pixels = pixels[pixels[:, :, 3] > 127][None, :, :3]
    return seen if seen.size else np.full((1, 1, 3), 255, np.uint8)


def _line_fact(line: TextLine, picture: Picture) -> dict[str, Any]:
    """The box as parts of the width and height, since nobody knows the size that was read."""
    width, height = picture.image.width, picture.image.height
    box = [round(edge / size, 4) for edge, size in zip(line.box, (width, height, width, height), strict=True)]
    return {"text": line.text[:MOST_CHARACTERS], "score": round(line.score, 3), "box": box}
