"""The bench of quality, with files of our own instead of the labelled ones, which are fetched: each way is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from bench.quality import reading, speech, tagging
from bench.quality.reading import Labelled
from bench.quality.speech import Spoken
from bench.quality.tagging import Photo
from mediamill.processors.models.image_classes import ImageClassifier
from mediamill.processors.models.local_vision import LocalVision
from mediamill.settings import Settings

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def test_speech_is_compared_with_what_was_said() -> None:
    figures = speech.measure("whisper-base", 1, [Spoken(SAMPLES / "voice.ogg", "en", "some words")], False)
    assert figures["files"] == 1
    assert figures["words"] == {"en": 2}
    assert figures["error_rate"]["en"] > 0  # type: ignore[index]


def test_text_in_drawn_images_is_read() -> None:
    drawing = Image.new("RGB", (640, 120), "white")
    ImageDraw.Draw(drawing).text((20, 30), "A quiet morning", "black", ImageFont.load_default(48))
    labelled = Labelled("own", ("drawn",), "A quiet morning", np.asarray(drawing))
    figures = reading.measure([labelled], False)
    group = figures["groups"]["drawn"]  # type: ignore[index]
    assert group["images"] == 1
    assert group["error_rate"] < 0.5


def test_tags_of_a_photo_are_counted() -> None:
    settings = Settings()
    classifier = ImageClassifier(settings.processor_threads)
    photo = Photo(SAMPLES / "photo.jpg", "own", frozenset({"anything"}), 0)
    figures = tagging.measure([photo], LocalVision(settings), classifier, False)
    assert figures["own"]["photos"] == 1  # type: ignore[index]
    assert figures["own"]["tags_per_photo"] > 0  # type: ignore[index]
