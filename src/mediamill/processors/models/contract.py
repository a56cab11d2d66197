"""What processors ask of models. An adapter fulfils one of these; `model` names it as name@revision.

`network`: it asks a model server, so its processor needs a caller.
Adapters are made once per child process. A model that is overloaded, away or slow raises RetryLaterError;
an answer that will never be right (refused, not authorised, nonsense twice) raises GiveUpError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from mediamill.processors.result import Tag

if TYPE_CHECKING:  # workers read this module for names, and start sooner without it
    import numpy as np
    from numpy.typing import NDArray

Pixels: TypeAlias = "NDArray[np.uint8]"  # height × width × 3, RGB, upright, at most a few megapixels
Vectors: TypeAlias = "NDArray[np.float32]"  # one row a text or image, of length 1


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text in an image; the box in pixels: left, top, right, bottom."""

    text: str
    score: float
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Sight:
    """What a model sees in an image. `description`: only from models that write sentences."""

    tags: tuple[Tag, ...] = ()
    description: str | None = None
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """Something said, in seconds from the start of the file."""

    start_seconds: float
    end_seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that was said. `speech_seconds`: how much of the file is speech at all."""

    segments: tuple[Segment, ...]
    language: str | None
    language_score: float | None
    duration_seconds: float
    speech_seconds: float
    model: str


OnSegment = Callable[[Segment], None]


class SpeechModel(Protocol):
    """Sound to text."""

    model: str
    network: bool

    def transcribe(self, path: Path, *, language: str | None, on_segment: OnSegment) -> Transcript:
        """Read the file as a stream, however long it is; segments are told as they are found."""


class VisionModel(Protocol):
    """Pixels to tags, or to a sentence."""

    model: str
    network: bool

    def look(self, pixels: Pixels, caption: str = "") -> Sight:
        """What is to be seen; the caption is a hint, never an order."""


class TextReader(Protocol):
    """Text in images."""

    model: str
    network: bool

    def read(self, pixels: Pixels) -> list[TextLine]:
        """Lines in reading order, only those that the model is sure of."""


class TextEmbedder(Protocol):
    """Meaning of texts as vectors."""

    model: str
    network: bool
    dimensions: int

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One vector a text."""


class ImageEmbedder(Protocol):
    """Look of images as vectors in the same space as `embed_query`'s."""

    model: str
    network: bool
    dimensions: int

    def embed_images(self, images: Sequence[Pixels]) -> Vectors:
        """One vector an image."""

    def embed_query(self, text: str) -> Vectors:
        """The vector of a search for images, one row."""


class VideoModel(Protocol):
    """A whole video to a description, by somebody who takes files."""

    model: str
    network: bool

    def watch(self, path: Path, mime_type: str, caption: str = "") -> Sight:
        """Upload as a stream, describe, clean up over there."""


class TextModel(Protocol):
    """Text to text, or to fields."""

    model: str
    network: bool

    def complete(self, instructions: str, text: str) -> str:
        """Follow our instructions on a stranger's text."""

    def fill(self, instructions: str, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The same with an answer that is an object of this JSON schema; whether it is, must be checked."""
