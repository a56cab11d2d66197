"""Images of every kind that is opened: upright, in sRGB, within limits, damaged ones with a reason."""

from __future__ import annotations

import resource
import struct
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from mediamill.media.errors import DamagedMediaError, MediaError, MediaTooLargeError, UnsupportedMediaError
from mediamill.media.exif import Exif
from mediamill.media.image_limits import memory_budget_bytes
from mediamill.media.images import encode_jpeg, load_frames, load_pixels, read_picture, to_pixels
from tests.media.making_images import (
    RED,
    corner_names,
    corners,
    exif_blob,
    make_dng,
    make_gif,
    make_heic,
    make_png_header,
    make_tiff,
    with_orientation,
)

# How each orientation stores an image whose upright corners are red, green, blue, yellow.
STORED = {
    1: lambda up: up,
    2: lambda up: up[:, ::-1],
    3: lambda up: up[::-1, ::-1],
    4: lambda up: up[::-1],
    5: lambda up: up.transpose(1, 0, 2),
    6: lambda up: np.rot90(up, 1),
    7: lambda up: up[::-1, ::-1].transpose(1, 0, 2),
    8: lambda up: np.rot90(up, -1),
}


@pytest.mark.spec("L4")
@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_every_orientation_is_turned_upright(tmp_path: Path, orientation: int, suffix: str) -> None:
    path = tmp_path / f"image.{suffix}"
    stored = np.ascontiguousarray(STORED[orientation](corners(160, 96)))
    with_orientation(stored, orientation).write_to_file(str(path))
    mime_type = {"jpg": "image/jpeg", "tif": "image/tiff"}.get(suffix, f"image/{suffix}")

    picture = read_picture(path, mime_type, 80)

    assert (picture.facts.width, picture.facts.height) == (160, 96)
    assert (picture.image.width, picture.image.height) == (80, 48)
    assert corner_names(load_pixels(path, mime_type, 80)) == "rgby"


@pytest.mark.spec("L4")
def test_a_heic_image_is_decoded_and_turned_by_its_own_transformation(tmp_path: Path) -> None:
    path = tmp_path / "image.heic"
    make_heic(path, np.ascontiguousarray(np.rot90(corners(136, 96), -1)), quarter_turns=1)

    picture = read_picture(path, "image/heic", 768)

    assert (picture.facts.width, picture.facts.height, picture.facts.format) == (136, 96, "HEIC")
    assert corner_names(load_pixels(path, "image/heic", 768)) == "rgby"


@pytest.mark.spec("L4")
def test_an_avif_image_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "image.avif"
    pyvips.Image.new_from_array(corners(160, 96)).heifsave(str(path), compression="av1", effort=0)

    pixels = load_pixels(path, "image/avif", 80)

    assert pixels.shape == (48, 80, 3)
    assert corner_names(pixels) == "rgby"


@pytest.mark.spec("L4")
def test_a_raw_photo_is_told_by_the_preview_that_the_camera_left(tmp_path: Path) -> None:
    path = tmp_path / "photo.dng"
    make_dng(path, corners(700, 500), (200, 20, 20), orientation=6)

    picture = read_picture(path, "image/x-adobe-dng", 768)

    assert (picture.image.width, picture.image.height) == (500, 700)
    assert (picture.facts.width, picture.facts.height) == (192, 256)
    assert corner_names(load_pixels(path, "image/x-adobe-dng", 768)) == "bryg"  # a quarter turn to the right
    assert picture.facts.exif.facts()["camera"] == "Mill One"


@pytest.mark.spec("L4")
@pytest.mark.parametrize("has_preview", [True, False])
def test_a_raw_photo_is_developed_on_request_or_if_it_has_no_preview(
    tmp_path: Path, has_preview: bool
) -> None:
    path = tmp_path / "photo.dng"
    make_dng(path, corners(700, 500) if has_preview else None, (20, 20, 200))

    picture = read_picture(path, "image/x-adobe-dng", 768, ignore_previews=has_preview)

    assert (picture.image.width, picture.image.height) == (256, 192)
    red, green, blue = picture.image(100, 100)
    assert blue > 200
    assert max(red, green) < 150


def test_a_raw_photo_that_is_damaged_says_so(tmp_path: Path) -> None:
    path = tmp_path / "photo.dng"
    make_dng(path, corners(700, 500), (20, 20, 200))
    path.write_bytes(path.read_bytes()[:60])

    with pytest.raises(DamagedMediaError, match="the raw photo is damaged"):
        read_picture(path, "image/x-adobe-dng", 768)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGBA", "I;16"])
def test_every_kind_of_png_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "image.png"
    shades = Image.fromarray(corners(160, 96)).convert("L")
    if mode == "I;16":
        Image.fromarray(np.asarray(shades, np.uint16) * 257).save(path)
    elif mode == "PA":
        shades.convert("P").save(path, transparency=0)
    else:
        shades.convert(mode).save(path)

    pixels = load_pixels(path, "image/png", 768)

    assert pixels.shape == (96, 160, 3)
    assert pixels.dtype == np.uint8
    assert pixels[80, 140].mean() > pixels[10, 10].mean() + 50  # yellow is brighter than red


def test_a_png_of_16_bits_keeps_its_colours(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    deep = pyvips.Image.new_from_array(corners(160, 96).astype(np.uint16) * 257)
    deep.copy(interpretation="rgb16").pngsave(str(path))

    assert read_picture(path, "image/png", 768).facts.bits == 16
    assert corner_names(load_pixels(path, "image/png", 768)) == "rgby"


def test_a_jpeg_for_print_becomes_rgb(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    Image.fromarray(corners(160, 96)).convert("CMYK").save(path, quality=95)

    assert corner_names(load_pixels(path, "image/jpeg", 768)) == "rgby"


def test_colours_of_another_profile_become_those_of_a_screen(tmp_path: Path) -> None:
    path = tmp_path / "image.tif"
    image = pyvips.Image.new_from_array(corners(160, 96)).copy(interpretation="srgb")
    image.icc_transform("p3", input_profile="srgb").tiffsave(str(path))
    assert load_without_profile(path)[10, 10].tolist() != pytest.approx(RED, abs=6)

    picture = read_picture(path, "image/tiff", 768)

    assert picture.facts.has_profile
    assert picture.image(10, 10) == pytest.approx(RED, abs=6)


def load_without_profile(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.asarray(Image.open(path))


def test_a_broken_colour_profile_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    Image.fromarray(corners(160, 96)).save(path, icc_profile=b"nonsense" * 40)

    assert corner_names(load_pixels(path, "image/jpeg", 768)) == "rgby"


def test_what_is_transparent_lies_on_white(tmp_path: Path) -> None:
    path = tmp_path / "image.webp"
    pixels = np.zeros((64, 64, 4), np.uint8)
    pixels[:, :32] = (200, 0, 0, 255)
    Image.fromarray(pixels).save(path, lossless=True)

    seen = load_pixels(path, "image/webp", 768)

    assert read_picture(path, "image/webp", 768).facts.has_alpha
    assert seen[32, 8].tolist() == [200, 0, 0]
    assert seen[32, 60].tolist() == [255, 255, 255]


def test_a_bitmap_is_opened_though_libvips_has_no_loader_for_it(tmp_path: Path) -> None:
    path = tmp_path / "image.bmp"
    Image.fromarray(corners(160, 96)).save(path)

    assert corner_names(load_pixels(path, "image/bmp", 80)) == "rgby"


@pytest.mark.parametrize("suffix", ["gif", "webp"])
def test_a_few_frames_of_an_animation_are_seen(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"moving.{suffix}"
    shades = [Image.new("RGB", (40, 30), (level, level, level)) for level in range(0, 250, 10)]
    shades[0].save(path, save_all=True, append_images=shades[1:], duration=50)

    frames = load_frames(path, f"image/{suffix}", 768, 3)

    assert read_picture(path, f"image/{suffix}", 768).facts.pages == 25
    assert [round(int(frame[15, 20, 0]), -1) for frame in frames] == [0, 120, 240]


def test_pages_of_a_tiff_are_no_frames(tmp_path: Path) -> None:
    path = tmp_path / "pages.tif"
    pages = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue")]
    pages[0].save(path, save_all=True, append_images=pages[1:])

    assert len(load_frames(path, "image/tiff", 768, 3)) == 1
    assert read_picture(path, "image/tiff", 768).facts.pages == 2


def test_pixels_survive_a_jpeg(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(encode_jpeg(corners(160, 96), 90))

    assert corner_names(load_pixels(path, "image/jpeg", 768)) == "rgby"


def test_a_type_that_is_no_image_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedMediaError, match="image/jxl"):
        load_pixels(tmp_path / "image", "image/jxl", 768)


def write_riff(path: Path, kind: bytes, data: bytes) -> None:
    chunk = kind + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk)


@pytest.mark.spec("C26")
def test_a_png_with_a_header_of_50_000_by_50_000_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    make_png_header(path, 50_000, 50_000)

    with pytest.raises(MediaTooLargeError, match="50000 × 50000 pixels"):
        read_picture(path, "image/png", 768)


@pytest.mark.spec("C26")
def test_an_interlaced_png_is_limited_by_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    make_png_header(path, 15_000, 15_000, interlaced=True)

    with pytest.raises(MediaTooLargeError, match="225 megapixels"):
        read_picture(path, "image/png", 768)


@pytest.mark.spec("C26")
def test_a_lossless_webp_with_a_huge_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.webp"
    size = 16_383
    write_riff(path, b"VP8L", b"\x2f" + struct.pack("<I", size | size << 14) + bytes(20))

    with pytest.raises(MediaError, match="WebP image"):
        read_picture(path, "image/webp", 768)


@pytest.mark.spec("C26")
def test_a_gif_with_a_huge_canvas_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gif"
    make_gif(path, 50_000, 50_000, 1)

    with pytest.raises(MediaTooLargeError, match="50000 × 50000"):
        read_picture(path, "image/gif", 768)


@pytest.mark.spec("C26")
def test_a_gif_without_end_is_seen_by_its_first_frames(tmp_path: Path) -> None:
    path = tmp_path / "endless.gif"
    make_gif(path, 64, 64, 20_000)

    frames = load_frames(path, "image/gif", 768, 3)

    assert 1 <= len(frames) <= 3
    assert frames[0].shape == (64, 64, 3)


@pytest.mark.spec("C26")
def test_a_gif_of_millions_of_frames_is_refused_before_they_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "endless.gif"
    make_gif(path, 64, 64, 3)
    with path.open("r+b") as file:
        file.truncate(100_000_000)

    with pytest.raises(MediaTooLargeError, match="100 MB"):
        read_picture(path, "image/gif", 768)


@pytest.mark.spec("C26")
@pytest.mark.parametrize("strip_bytes", [10, 4_000_000_000])
def test_a_tiff_with_lying_strips_is_damaged(tmp_path: Path, strip_bytes: int) -> None:
    path = tmp_path / "lying.tif"
    path.write_bytes(
        make_tiff(
            [[
                (256, 4, [10_000]), (257, 4, [10_000]), (258, 3, [8, 8, 8]), (259, 3, [1]), (262, 3, [2]),
                (273, 4, ["blob:0"]), (277, 3, [3]), (278, 4, [10_000]), (279, 4, [strip_bytes]),
            ]],
            [bytes(100)],
        )
    )  # fmt: skip

    with pytest.raises(MediaError, match="the TIFF image"):
        read_picture(path, "image/tiff", 768)


@pytest.mark.spec("C26")
def test_a_bitmap_with_a_huge_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.bmp"
    header = struct.pack("<IiiHHIIiiII", 40, 50_000, 50_000, 1, 24, 0, 0, 0, 0, 0, 0)
    path.write_bytes(b"BM" + struct.pack("<IHHI", 200, 0, 0, 54) + header + bytes(200))

    with pytest.raises(MediaTooLargeError, match="BMP image"):
        read_picture(path, "image/bmp", 768)


def noise(width: int, height: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(5).integers(0, 255, (height, width, 3), np.uint8)


@pytest.mark.spec("C26")
@pytest.mark.parametrize("suffix", ["jpeg", "png"])
def test_a_torn_image_is_used_if_most_of_it_is_there(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"torn.{suffix}"
    Image.fromarray(noise(400, 300)).save(path)
    whole = path.read_bytes()

    path.write_bytes(whole[: len(whole) * 8 // 10])
    torn = read_picture(path, f"image/{suffix}", 768)
    path.write_bytes(whole)
    intact = read_picture(path, f"image/{suffix}", 768)

    assert torn.facts.truncated
    assert not intact.facts.truncated
    assert torn.image(10, 10) == intact.image(10, 10)


@pytest.mark.spec("L4")
def test_a_raw_photo_that_libraw_refuses_is_read_by_libvips(tmp_path: Path) -> None:
    path = tmp_path / "photo.nef"
    pyvips.Image.new_from_array(corners(160, 96)).write_to_file(str(tmp_path / "a.tif"))
    path.write_bytes((tmp_path / "a.tif").read_bytes())

    picture = read_picture(path, "image/x-nikon-nef", 80)

    assert (picture.facts.width, picture.facts.height, picture.facts.format) == (160, 96, "TIFF")
    assert corner_names(to_pixels(picture)) == "rgby"
    path.write_bytes(b"II*\0" + b"\xff" * 500)
    with pytest.raises(DamagedMediaError, match="the raw photo is damaged"):
        read_picture(path, "image/x-nikon-nef", 80)


@pytest.mark.spec("C26")
@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp", "gif", "tiff", "bmp"])
def test_an_image_of_which_little_is_left_is_damaged(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"torn.{suffix}"
    Image.fromarray(noise(400, 300)).save(path, interlace=0)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 10])

    with pytest.raises(DamagedMediaError, match="image is damaged: "):
        read_picture(path, f"image/{suffix}", 768)


@pytest.mark.spec("C26")
def test_a_torn_heic_image_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "torn.heic"
    make_heic(path, corners(128, 96))
    whole = path.read_bytes()
    for length in (40, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:length])

        with pytest.raises(DamagedMediaError, match="the HEIC image is damaged"):
            read_picture(path, "image/heic", 768)


def test_the_memory_for_one_image_is_a_part_of_what_the_process_may_take() -> None:
    budget = memory_budget_bytes()
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]

    assert budget <= 512 * 1024 * 1024
    assert limit == resource.RLIM_INFINITY or budget <= limit / 3


def test_the_camera_s_notes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    Image.fromarray(corners(160, 96)).save(path, exif=b"Exif\0\0" + exif_blob())

    assert read_picture(path, "image/jpeg", 768).facts.exif.facts() == {
        "taken_at": "2024-05-01T12:30:00+02:00",
        "taken_from": "exif_offset",
        "camera": "Mill One",
        "exposure_seconds": 0.004,
        "gps": {"latitude": 52.5, "longitude": -13.4, "altitude_metres": -34},
    }


@pytest.mark.spec("C26")
def test_notes_that_are_nonsense_are_left_out() -> None:
    blob = exif_blob()
    for place in range(len(blob)):
        for value in (0, 0x7F, 0xFF):
            Exif(blob[:place] + bytes([value]) + blob[place + 1 :]).facts()
        Exif(blob[:place]).facts()
    assert Exif(b"\0" * 100).facts() == {}
