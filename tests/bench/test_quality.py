"""The bench of quality, with files of our own instead of the labelled ones, which are fetched: each way is measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from bench.quality import __main__ as program
from bench.quality import asked, floors, reading, speech, tagging
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


def test_searches_are_held_against_every_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "read_news", lambda: ["A whale swam into a net.", "The bank lays off staff."])
    monkeypatch.setattr(asked, "NEWS_SEARCHES", {"whale": {1}})
    monkeypatch.setattr(asked, "find_labelled", lambda: [(SAMPLES / "photo.jpg", frozenset({"seen"}))])
    monkeypatch.setattr(asked, "PHOTO_SEARCHES", {"a photo": "seen"})
    found = floors.run()
    assert (found["news by meaning"]["searches"], found["news by meaning"]["things"]) == (1, 2)
    assert found["news by meaning"]["floors"][0]["recall"] == 1
    for way in ("meaning", "look"):
        assert found[f"photos by {way}"]["things"] == 1
    assert 0 <= found["photos by either, as searched"]["recall"] <= 1


def test_the_figures_of_all_parts_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagging, "run", lambda _: "tags")
    monkeypatch.setattr(reading, "run", lambda _: "read")
    monkeypatch.setattr(speech, "find_spoken", list)
    monkeypatch.setattr(speech, "measure", lambda model, *_: {"model": model})
    monkeypatch.setattr(program, "RESULTS", tmp_path / "quality.json")
    monkeypatch.setattr(sys, "argv", ["bench.quality"])
    program.main()
    told = json.loads((tmp_path / "quality.json").read_text())
    assert [one["model"] for one in told["speech"]] == [model for model, _ in program.SPEECH]
    assert (told["reading"], told["tagging"]) == ("read", "tags")
