"""The pictures of the documents: each is taken by a test, shown by a page, and small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.pictures import IMAGES, MOST_BYTES, ROOT, WIDEST, make_small, read_list

PICTURES = read_list()
SHOWN = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")


def shown_pictures() -> set[Path]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {(page.parent / found).resolve() for page in pages for found in SHOWN.findall(page.read_text())}


def test_every_picture_that_a_page_shows_is_taken_by_a_test_and_every_one_taken_is_shown() -> None:
    taken = {IMAGES / f"{name}.webp" for name in PICTURES}
    assert shown_pictures() == taken, "docs/images/pictures.toml names them; make screenshots takes them"
    assert {path for path in IMAGES.iterdir() if path.suffix != ".toml"} == taken


@pytest.mark.parametrize("name", PICTURES)
def test_the_test_that_takes_a_picture_is_there(name: str) -> None:
    path, _, function = PICTURES[name]["test"].partition("::")
    assert f"def {function.partition('[')[0]}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small(name: str) -> None:
    from PIL import Image

    path = IMAGES / f"{name}.webp"
    assert path.stat().st_size <= MOST_BYTES
    with Image.open(path) as image:
        assert image.width <= WIDEST


def test_a_wide_screenshot_becomes_a_small_picture(tmp_path: Path) -> None:
    from PIL import Image

    Image.effect_noise((2600, 800), 90).save(tmp_path / "shot.png")
    size = make_small(tmp_path / "shot.png", tmp_path / "picture.webp")
    with Image.open(tmp_path / "picture.webp") as image:
        assert image.size == (1280, 394)
        assert image.format == "WEBP"
    assert size == (tmp_path / "picture.webp").stat().st_size
