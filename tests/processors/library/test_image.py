"""Images of libraries: stand-ins and facts of every sort of image, from one look at a source that stays as it was."""

from __future__ import annotations

import os
import struct
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvips
from PIL import Image

from mediamill.media.errors import MediaError, MissingMediaError, UnsupportedMediaError
from mediamill.processors.library.image import LibraryImageProcessor
from tests.media.making import make_film
from tests.media.making_images import corner_names, corners, exif_blob, make_dng, make_heic, with_orientation
from tests.processors.library.homes import run_once
from tests.processors.library.watched import count_opens, moves_access_time

pytestmark = pytest.mark.spec("L4")

PREVIEW, THUMBNAIL = "preview.webp", "thumbnail.jpg"


def look(source: Path, **payload: Any) -> dict[str, Any]:
    """The result; both files are there, named, and what the result says of them is true."""
    folder = source.parent / "out"
    output = run_once(LibraryImageProcessor((), 60), source, folder, **payload)
    assert output.files == {PREVIEW: PREVIEW, THUMBNAIL: THUMBNAIL}
    assert output.result["digest"] == sha256((folder / PREVIEW).read_bytes()).hexdigest()
    return dict(output.result)


def sizes(source: Path) -> list[tuple[int, int]]:
    found = []
    for name in (PREVIEW, THUMBNAIL):
        with Image.open(source.parent / "out" / name) as image:
            found.append(image.size)
    return found


def test_a_photo_is_told_with_size_time_and_camera(tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    Image.fromarray(corners(1600, 1200)).save(photo, exif=b"Exif\0\0" + exif_blob())

    result = look(photo)

    assert (result["width"], result["height"], result["format"]) == (1600, 1200, "JPEG")
    assert (result["mime_type"], result["truncated"]) == ("image/jpeg", False)
    assert result["taken_at"] == "2024-05-01T12:30:00+02:00"
    facts = result["facts"]
    assert (facts["camera"], facts["exposure_seconds"], facts["taken_from"]) == (
        "Mill One",
        0.004,
        "exif_offset",
    )
    assert facts["gps"] == {"latitude": 52.5, "longitude": -13.4, "altitude_metres": -34}
    assert sizes(photo) == [(768, 576), (320, 240)]


@pytest.mark.spec("L22")
def test_a_time_without_a_zone_is_that_of_the_camera_s_clock(tmp_path: Path) -> None:
    make_dng(tmp_path / "photo.dng", corners(700, 500), (20, 20, 200))

    result = look(tmp_path / "photo.dng")

    assert result["taken_at"] == "2024-05-01T12:30:00"
    assert result["facts"]["taken_from"] == "exif"


def test_a_raw_photo_gives_its_preview_or_if_asked_for_a_rendering(tmp_path: Path) -> None:
    raw = tmp_path / "photo.dng"
    make_dng(raw, corners(700, 500), (20, 20, 200))

    assert look(raw)["format"] == "RAW"
    assert sizes(raw) == [(700, 500), (320, 229)]
    look(raw, ignore_previews=True)
    assert sizes(raw) == [(256, 192), (256, 192)]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_ends_upright(tmp_path: Path, orientation: int) -> None:
    photo = tmp_path / "photo.jpg"
    upright = corners(900, 600)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: np.rot90(upright[:, ::-1], 1),
        6: np.rot90(upright, 1),
        7: np.rot90(upright[:, ::-1], -1),
        8: np.rot90(upright, -1),
    }[orientation]
    with_orientation(np.ascontiguousarray(stored), orientation).jpegsave(str(photo))

    result = look(photo)

    assert (result["width"], result["height"]) == (900, 600)
    assert result["facts"].get("orientation", 1) == orientation
    for name in (PREVIEW, THUMBNAIL):
        with Image.open(tmp_path / "out" / name) as image:
            assert corner_names(np.asarray(image.convert("RGB"))) == "rgby"


def save_cmyk(path: Path) -> None:
    Image.fromarray(corners(400, 300)).convert("CMYK").save(path, "JPEG")


def save_deep(path: Path) -> None:
    pyvips.Image.new_from_array(corners(400, 300).astype(np.uint16) * 257).copy(
        interpretation="rgb16"
    ).pngsave(str(path))


def save_heic(path: Path) -> None:
    make_heic(path, corners(400, 300))


def save_avif(path: Path) -> None:
    Image.fromarray(corners(400, 300)).save(path, "AVIF")


def save_animated(path: Path) -> None:
    first, second = Image.fromarray(corners(400, 300)), Image.new("RGB", (400, 300), "black")
    first.save(path, "GIF", save_all=True, append_images=[second], duration=100)


@pytest.mark.parametrize(
    ("save", "format_name", "facts"),
    [
        (save_cmyk, "JPEG", {"bits": 8}),
        (save_deep, "PNG", {"bits": 16}),
        (save_heic, "HEIC", {}),
        (save_avif, "AVIF", {}),
        (save_animated, "GIF", {"pages": 2}),
    ],
)
def test_every_sort_of_image_is_read_whatever_its_name_says(
    tmp_path: Path, save: Any, format_name: str, facts: dict[str, Any]
) -> None:
    path = tmp_path / "wrong.txt"
    save(path)

    result = look(path)

    assert (result["width"], result["height"], result["format"]) == (400, 300, format_name)
    assert facts.items() <= result["facts"].items()
    assert sizes(path) == [(400, 300), (320, 240)]
    with Image.open(tmp_path / "out" / PREVIEW) as image:
        assert corner_names(np.asarray(image.convert("RGB"))) == "rgby"


def test_an_icon_stays_as_small_as_it_is(tmp_path: Path) -> None:
    Image.fromarray(corners(32, 32)).save(tmp_path / "icon.png")
    look(tmp_path / "icon.png")
    assert sizes(tmp_path / "icon.png") == [(32, 32), (32, 32)]


def test_a_torn_photo_is_used_as_far_as_it_goes_and_that_is_said(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jpg"
    noise = np.random.default_rng(1).integers(0, 255, (600, 800, 3), np.uint8)
    Image.fromarray(noise).save(whole)
    torn = tmp_path / "torn.jpg"
    torn.write_bytes(whole.read_bytes()[: whole.stat().st_size * 8 // 10])

    result = look(torn)

    assert result["truncated"] is True
    assert result["facts"]["truncated"] is True


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells where an open file is")
def test_a_folder_that_has_become_a_link_since_it_was_looked_at_is_not_followed(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    Image.new("RGB", (40, 30), "red").save(private / "photo.jpg")
    (tmp_path / "album").symlink_to(private)
    with pytest.raises(MissingMediaError, match="a link stands in the way"):
        look(tmp_path / "album" / "photo.jpg")
    assert look(private / "photo.jpg")["width"] == 40


def test_what_is_no_image_is_refused_for_good_with_the_reason(tmp_path: Path) -> None:
    film = make_film(tmp_path / "film.jpg", "mp4", "libx264")
    with pytest.raises(UnsupportedMediaError, match="no image: it is video/mp4"):
        look(film)
    (tmp_path / "noise.jpg").write_bytes(struct.pack("<I", 7) * 100)
    with pytest.raises(MediaError, match="no image"):
        look(tmp_path / "noise.jpg")
    with pytest.raises(MissingMediaError):
        look(tmp_path / "gone.jpg")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's count of opens")
@pytest.mark.parametrize("kind", ["jpeg", "heic", "dng", "torn"])
def test_the_source_is_opened_once_sniffing_included(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "photo"
    if kind == "heic":
        make_heic(path, corners(400, 300))
    elif kind == "dng":
        make_dng(path, corners(700, 500), (20, 20, 200))
    else:
        noise = np.random.default_rng(1).integers(0, 255, (600, 800, 3), np.uint8)
        Image.fromarray(noise).save(path, "JPEG")
        if kind == "torn":
            path.write_bytes(path.read_bytes()[: path.stat().st_size * 8 // 10])

    assert count_opens("library-image", path, tmp_path / "out") == 1


@pytest.mark.spec("L3")
@pytest.mark.parametrize("kind", ["jpeg", "heic", "dng"])
def test_the_source_keeps_its_times(tmp_path: Path, kind: str) -> None:
    if not moves_access_time(tmp_path / "probe"):
        pytest.skip("this file system does not note who reads")
    path = tmp_path / "photo"
    if kind == "heic":
        make_heic(path, corners(400, 300))
    elif kind == "dng":
        make_dng(path, corners(700, 500), (20, 20, 200))
    else:
        Image.fromarray(corners(400, 300)).save(path, "JPEG")
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    before = path.stat()

    look(path)

    assert path.stat() == before
