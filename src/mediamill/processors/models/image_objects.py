"""SSD-MobileNetV3 on an image: which of COCO's everyday objects are in it, and how many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.contract import Pixels
from mediamill.processors.models.installed import model_folder

NAME = "ssd-mobilenet-v3"
SIDE = 320
LEAST_SCORE = 0.55
OVERLAP = 0.5  # of two boxes of one class that overlap by more, one is dropped


@dataclass(frozen=True, slots=True)
class SeenObject:
    """One object."""

    label: str
    score: float


class ObjectDetector:
    """The model, loaded."""

    def __init__(self, threads: int) -> None:
        import cv2

        cv2.setNumThreads(threads)
        model = find_model(NAME)
        folder = model_folder(NAME)
        weights, graph, labels = (str(folder / file.name) for file in model.files)
        self.model = model.id
        self.labels = (folder / labels).read_text(encoding="utf-8").split("\n")
        self._net = cv2.dnn.DetectionModel(weights, graph)
        self._net.setInputParams(1 / 127.5, (SIDE, SIDE), (127.5, 127.5, 127.5), swapRB=False)

    def detect(self, pixels: Pixels) -> list[SeenObject]:
        """All objects that the model is sure enough of, the surest first."""
        numbers, scores, _boxes = self._net.detect(
            np.ascontiguousarray(pixels), confThreshold=LEAST_SCORE, nmsThreshold=OVERLAP
        )
        found = [
            SeenObject(self.labels[int(number) - 1], min(1.0, float(score)))
            for number, score in zip(np.ravel(numbers), np.ravel(scores), strict=True)
            if 1 <= number <= len(self.labels)
        ]
        return sorted(found, key=lambda each: -each.score)
