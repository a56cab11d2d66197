"""Stickers: still and animated, with their maker's notes; a photo among them is an image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from mediamill.media.exif import Exif
from mediamill.processors.sticker import StickerNote, StickerProcessor, read_note
from tests.media.making_images import make_tiff
from tests.processors.seeing import ColourVision, GivenText, job

pytestmark = pytest.mark.spec("C26")

NOTE = {
    "sticker-pack-id": "1",
    "sticker-pack-name": "Cats",
    "sticker-pack-publisher": "Mill",
    "emojis": ["😀", "👩‍🚀"],
}


def processor(*texts: str) -> StickerProcessor:
    return StickerProcessor(["image/webp"], 60, vision=ColourVision(), reader=GivenText(*texts))


def cut_out(colour: str) -> Image.Image:
    sticker = Image.new("RGBA", (512, 512), (0, 0, 0, 0))
    ImageDraw.Draw(sticker).ellipse((10, 10, 500, 500), fill=colour)
    return sticker


def exif_with(note: bytes) -> bytes:
    return make_tiff([[(0x5741, 7, note)]])


def test_a_sticker_is_told_with_its_emoji_and_its_text(tmp_path: Path) -> None:
    path = tmp_path / "sticker.webp"
    cut_out("red").save(path, exif=exif_with(json.dumps(NOTE).encode()))

    result = processor("good morning").process(job(path, tmp_path / "out")).result

    assert result["content"] == (
        "Sticker 😀 👩‍🚀: Probably: red. Perhaps: green, blue.\nText in the sticker: good morning"
    )
    assert result["facts"]["sticker"] == {"emoji": ["😀", "👩‍🚀"], "pack": "Cats", "publisher": "Mill"}
    assert result["models"] == ["colour-vision@1", "given-text@1"]


def test_a_moving_sticker_is_told_as_animated(tmp_path: Path) -> None:
    path = tmp_path / "sticker.webp"
    frames = [cut_out(colour) for colour in ("red", "lime", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:])

    result = processor().process(job(path, tmp_path / "out")).result

    assert result["content"].startswith("Animated sticker: Probably: ")
    assert result["facts"]["frames"] == 3


def test_a_large_photo_is_told_as_an_image(tmp_path: Path) -> None:
    path = tmp_path / "photo.webp"
    Image.new("RGB", (1600, 1200), "blue").save(path)

    result = processor().process(job(path, tmp_path / "out")).result

    assert result["content"] == "Probably: blue.\n(Landscape, 1600 × 1200 pixels, mostly blue)"
    assert "sticker" not in result["facts"]


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"[" * 60_000,
        b'{"emojis": "no list"}',
        b'{"emojis": [1, null, {}]}',
        b"\xff\xfe",
    ],
)
def test_notes_that_are_nonsense_are_no_notes(note: bytes) -> None:
    assert not read_note(Exif(exif_with(note)))


def test_notes_are_bounded_and_printable() -> None:
    told = {"emojis": ["😀" * 1000] * 1000, "sticker-pack-name": "a\nb\x1b[31m" + "x" * 10_000}

    note = read_note(Exif(exif_with(json.dumps(told, ensure_ascii=False)[:60_000].encode())))
    short = read_note(Exif(exif_with(json.dumps({**told, "emojis": ["😀" * 99] * 20}).encode())))

    assert note == StickerNote()  # cut off, so no JSON any more
    assert short.emoji == ("😀" * 16,) * 10
    assert short.pack is not None
    assert len(short.pack) == 100
    assert short.pack.startswith("a b [31mxxx")
