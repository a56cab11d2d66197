"""Two small models for tests, real ones in their way: one names the colour it sees, one reads what it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.models.contract import Pixels, Sight, TextLine
from mediamill.processors.result import Tag


class ColourVision:
    """Sees red, green and blue, as sure as the colour is strong."""

    model = "colour-vision@1"

    def __init__(self, *, network: bool = False, sentence: str | None = None) -> None:
        self.network = network
        self.sentence = sentence
        self.shapes: list[tuple[int, ...]] = []
        self.captions: list[str] = []

    def look(self, pixels: Pixels, caption: str = "") -> Sight:
        self.shapes.append(pixels.shape)
        self.captions.append(caption)
        means = pixels.reshape(-1, 3).mean(axis=0) / 255
        tags = [
            Tag(name, float(mean), self.model)
            for name, mean in zip(("red", "green", "blue"), means, strict=True)
        ]
        return Sight(tuple(tags), self.sentence, (self.model,))


class GivenText:
    """Reads the same lines everywhere."""

    model = "given-text@1"
    network = False

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.shapes: list[tuple[int, ...]] = []

    def read(self, pixels: Pixels) -> list[TextLine]:
        self.shapes.append(pixels.shape)
        return lines(*self.texts)


def lines(*texts: str) -> list[TextLine]:
    """Lines of 20 pixels, one below the other."""
    return [TextLine(text, 0.95, (10, 30 * row, 200, 30 * row + 20)) for row, text in enumerate(texts)]


def job(path: Path, folder: Path, payload: Mapping[str, Any] | None = None) -> ProcessorInput:
    """What a worker would give."""
    folder.mkdir(exist_ok=True)
    return ProcessorInput(dict(payload or {}), None, path, folder, None, 1, lambda *_args, **_named: None)


def labels(tags: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(tag["label"]) for tag in tags]
