"""The image processor: from a file to text, tags, facts and stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from mediamill.processors.contract import RefusedMediaError
from mediamill.processors.image import ImageVisionProcessor
from mediamill.processors.image.colours import dominant_colours
from mediamill.processors.image.examine import merge_lines
from tests.media.making_images import corners, exif_blob
from tests.processors.seeing import ColourVision, GivenText, job, labels, lines

pytestmark = pytest.mark.spec("C26")


def processor(vision: ColourVision | None = None, *texts: str) -> ImageVisionProcessor:
    return ImageVisionProcessor(["image/*"], 60, vision=vision or ColourVision(), reader=GivenText(*texts))


def make_photo(path: Path, colour: str = "red", size: tuple[int, int] = (3000, 2000), **options: Any) -> Path:
    Image.new("RGB", size, colour).save(path, **options)
    return path


def test_an_image_becomes_a_description_and_its_text(tmp_path: Path) -> None:
    photo = make_photo(tmp_path / "photo.jpg")

    output = processor(None, "EXIT", "this way").process(job(photo, tmp_path / "out", {"caption": "where?"}))

    assert output.result["content"].splitlines() == [
        "Probably: red.",
        "Text in the image:",
        "EXIT",
        "this way",
        "(Landscape, 3000 × 2000 pixels, mostly red)",
    ]
    assert labels(output.result["tags"]) == ["red", "green", "blue"]
    assert output.result["models"] == ["colour-vision@1", "given-text@1"]
    assert output.result["mime_type"] == "image/jpeg"
    assert output.files == {}


def test_models_get_bounded_pixels_of_one_decode(tmp_path: Path) -> None:
    photo = make_photo(tmp_path / "photo.jpg")
    vision, reader = ColourVision(), GivenText()

    ImageVisionProcessor([], 60, vision=vision, reader=reader).process(job(photo, tmp_path / "out"))

    assert vision.shapes == [(682, 1024, 3)]
    assert reader.shapes == [(1333, 2000, 3)]


def test_the_facts_are_json_and_complete(tmp_path: Path) -> None:
    photo = make_photo(tmp_path / "photo.jpg", exif=b"Exif\0\0" + exif_blob())

    facts = processor(None, "EXIT").process(job(photo, tmp_path / "out")).result["facts"]

    assert json.loads(json.dumps(facts)) == facts
    assert (facts["width"], facts["height"]) == (3000, 2000)
    assert (facts["orientation"], facts["format"], facts["truncated"]) == ("landscape", "JPEG", False)
    assert facts["colours"] == [{"name": "red", "hex": "#fe0000", "share": 1.0}]
    assert facts["exif"]["gps"]["latitude"] == 52.5
    assert facts["text_lines"] == [{"text": "EXIT", "score": 0.95, "box": [0.005, 0.0, 0.1, 0.015]}]


def test_the_place_is_a_fact_but_not_told_to_the_conversation(tmp_path: Path) -> None:
    photo = make_photo(tmp_path / "photo.jpg", exif=b"Exif\0\0" + exif_blob())

    content = processor().process(job(photo, tmp_path / "out")).result["content"]

    assert "taken on 2024-05-01 at 12:30 with Mill One" in content
    assert "52" not in content


@pytest.mark.spec("L4")
def test_stand_ins_are_made_on_request(tmp_path: Path) -> None:
    photo, folder = make_photo(tmp_path / "photo.jpg"), tmp_path / "out"

    output = processor().process(job(photo, folder, {"previews": True}))

    assert output.files == {"preview.webp": "preview.webp", "thumbnail.jpg": "thumbnail.jpg"}
    with Image.open(folder / "preview.webp") as preview, Image.open(folder / "thumbnail.jpg") as thumbnail:
        assert (preview.size, thumbnail.size) == ((768, 512), (320, 213))


def test_frames_of_an_animation_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "moving.gif"
    frames = [Image.new("RGB", (60, 40), colour) for colour in ("red", "lime", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:])

    result = processor(None, "hello").process(job(path, tmp_path / "out")).result

    assert result["content"].startswith("Animated image of 3 frames.\nProbably: red, green, blue.")
    assert result["content"].count("hello") == 1
    assert result["facts"]["frames"] == 3


def test_somebody_beyond_this_machine_is_asked_for_one_frame_only(tmp_path: Path) -> None:
    path = tmp_path / "moving.gif"
    frames = [Image.new("RGB", (60, 40), colour) for colour in ("red", "lime", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    vision = ColourVision(network=True, sentence="A red square.")

    result = processor(vision).process(job(path, tmp_path / "out", {"caption": "look"})).result

    assert len(vision.shapes) == 1
    assert vision.captions == ["look"]
    assert result["content"].startswith("Animated image of 3 frames.\nA red square.\n")


def test_a_processor_wants_the_network_if_its_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ImageVisionProcessor([], 60).network
    assert processor(ColourVision(network=True)).network
    monkeypatch.setenv("MEDIAMILL_VISION", "openai")
    assert ImageVisionProcessor([], 60).network


def test_a_torn_photo_is_told_as_torn(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    Image.fromarray(np.random.default_rng(5).integers(0, 255, (300, 400, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:-20_000])

    result = processor().process(job(path, tmp_path / "out")).result

    assert result["facts"]["truncated"] is True
    assert "(The file is damaged: a part of the image is missing.)" in result["content"]


def test_a_damaged_photo_has_a_reason(tmp_path: Path) -> None:
    path = make_photo(tmp_path / "photo.jpg")
    path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(RefusedMediaError, match="the JPEG image is damaged: "):
        processor().process(job(path, tmp_path / "out"))


def test_white_writing_without_background_is_shown_on_grey(tmp_path: Path) -> None:
    path = tmp_path / "logo.png"
    logo = Image.new("RGBA", (300, 100), (0, 0, 0, 0))
    ImageDraw.Draw(logo).rectangle((100, 40, 200, 60), fill="white")
    logo.save(path)
    vision = ColourVision()

    result = processor(vision).process(job(path, tmp_path / "out")).result

    assert result["tags"][0]["score"] < 0.4
    assert [colour["name"] for colour in result["facts"]["colours"]] == ["white"]


def test_colours_are_few_and_have_names() -> None:
    found = dominant_colours(corners(400, 300))

    assert [colour.name for colour in found] == ["blue", "green", "red", "yellow"]
    assert all(colour.share == pytest.approx(0.25, abs=0.02) for colour in found)
    assert dominant_colours(np.full((1, 1, 3), 255, np.uint8))[0].name == "white"


def test_text_that_frames_repeat_is_told_once() -> None:
    merged = merge_lines([lines("Hello"), lines("HELLO ", "world"), lines("world")])

    assert [line.text for line in merged] == ["Hello", "world"]


def test_the_models_of_this_machine_read_a_screenshot(tmp_path: Path) -> None:
    path = tmp_path / "screenshot.png"
    screen = Image.new("RGB", (900, 400), "white")
    font = ImageFont.load_default(40)
    for row, text in enumerate(("Meeting notes", "Budget for May: 4,500 EUR", "Call the printer")):
        ImageDraw.Draw(screen).text((60, 60 + 80 * row), text, fill="black", font=font)
    screen.save(path)

    result = ImageVisionProcessor(["image/*"], 60).process(job(path, tmp_path / "out")).result

    for text in ("Meeting notes", "Budget for May: 4,500 EUR", "Call the printer"):
        assert text in result["content"]
    assert "mostly white" in result["content"]
    assert len(result["models"]) >= 2
    assert all("@" in model for model in result["models"])
