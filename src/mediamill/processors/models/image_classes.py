"""EfficientNet-lite0 on an image: how likely each of ImageNet's 1000 classes is, in plain words and wider groups."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.contract import Pixels
from mediamill.processors.models.installed import model_folder
from mediamill.processors.models.sessions import open_session

NAME = "efficientnet-lite0"
SIDE = 224
Shares = NDArray[np.float32]  # one number for each class; together they are 1


@dataclass(frozen=True, slots=True)
class ClassWord:
    """What a class is called, and the wider word for it and its neighbours (which may be the same)."""

    label: str
    group: str


def read_class_words() -> tuple[ClassWord, ...]:
    """The words of all classes, in the model's order; a line of the file is a label and, after a tab, its group."""
    text = (files("mediamill.processors.models") / "imagenet_labels.txt").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines()]
    return tuple(ClassWord(line[0], line[-1]) for line in lines)


class ImageClassifier:
    """The model, loaded."""

    def __init__(self, threads: int) -> None:
        model = find_model(NAME)
        self.model = model.id
        self.words = read_class_words()
        self._session = open_session(model_folder(NAME) / model.files[0].name, threads)

    def classify(self, pixels: Pixels) -> Shares:
        """How likely each class is."""
        logits = self._session.run(["logits"], {"x": _input(pixels)})[0][0]
        raised = np.exp(logits - logits.max())
        return np.asarray(raised / raised.sum(), dtype=np.float32)


def _input(pixels: Pixels) -> NDArray[np.float32]:
    """The middle of the image as a square of the model's size, each number about -1 to 1."""
    import cv2

    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = pixels[top : top + side, left : left + side]
    how = cv2.INTER_AREA if side > SIDE else cv2.INTER_CUBIC
    small = cv2.resize(square, (SIDE, SIDE), interpolation=how).astype(np.float32)
    return np.ascontiguousarray(((small - 127) / 128).transpose(2, 0, 1)[None])
