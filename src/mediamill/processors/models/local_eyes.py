"""The two small models that look at images on this machine. Tags and vectors are made of what the same two see."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass

from mediamill.processors.models.contract import Pixels
from mediamill.processors.models.image_classes import ImageClassifier, Shares
from mediamill.processors.models.image_objects import ObjectDetector, SeenObject


@dataclass(frozen=True, slots=True)
class Seen:
    """What both see in one image; the surest object first."""

    shares: Shares
    objects: list[SeenObject]


class LocalEyes:
    """The models, loaded. What was seen last is remembered: who wants tags and a vector of an image pays once."""

    def __init__(self, threads: int) -> None:
        self.classes = ImageClassifier(threads)
        self.objects = ObjectDetector(threads)
        self._last: tuple[weakref.ref[Pixels], Seen] | None = None

    def see(self, pixels: Pixels) -> Seen:
        """Pixels are not written to between two calls: by the same array is meant the same image."""
        if self._last is None or self._last[0]() is not pixels:
            seen = Seen(self.classes.classify(pixels), self.objects.detect(pixels))
            self._last = weakref.ref(pixels), seen
        return self._last[1]


@functools.cache
def local_eyes(threads: int) -> LocalEyes:
    """Once per process, whoever asks."""
    return LocalEyes(threads)
