"""What models see and read in single frames of a video, and the previews that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mediamill.media.frames import SMALL, Pixels, sharpness_of
from mediamill.media.images import encode_jpeg
from mediamill.processors.image.examine import Eyes
from mediamill.processors.models.contract import Sight, TextLine
from mediamill.processors.result import Tag

LOOK_SIDE = 1280  # subtitles are legible
PREVIEW_SIDE = 768
MOST_LINES, MOST_CHARACTERS = 100, 500  # of the text in one frame


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in one frame."""

    sight: Sight
    lines: tuple[TextLine, ...]
    models: tuple[str, ...]

    def save(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> Look:
        """What `save` gave. Raises TypeError, KeyError or ValueError if it makes no sense."""
        sight = saved["sight"]
        tags = tuple(Tag(**tag) for tag in sight["tags"])
        left_top_right_bottom = [tuple(map(float, line["box"])) for line in saved["lines"]]
        lines = tuple(
            TextLine(line["text"], line["score"], (box[0], box[1], box[2], box[3]))
            for line, box in zip(saved["lines"], left_top_right_bottom, strict=True)
        )
        return cls(Sight(tags, sight["description"], tuple(sight["models"])), lines, tuple(saved["models"]))


def look_at(pixels: Pixels, caption: str, eyes: Eyes) -> Look:
    """Ask both models."""
    sight = eyes.vision.look(pixels, caption)
    lines = tuple(
        TextLine(line.text[:MOST_CHARACTERS], line.score, line.box)
        for line in eyes.reader.read(pixels)[:MOST_LINES]
    )
    return Look(sight, lines, (*sight.models, eyes.reader.model))


def write_preview(pixels: Pixels, path: Path) -> None:
    """A JPEG of at most 768 pixels."""
    height, width = pixels.shape[:2]
    scale = min(1.0, PREVIEW_SIDE / max(width, height))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    path.write_bytes(encode_jpeg(np.ascontiguousarray(small)))


def detail_of(pixels: Pixels) -> float:
    """How sharp a frame is, as the scan measures it."""
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    return sharpness_of(np.asarray(cv2.resize(gray, (SMALL, SMALL), interpolation=cv2.INTER_AREA), np.uint8))
