"""Images as a model shall get them: small, upright, sRGB, one frame, without metadata; refused in our own words."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
import pyvips
from numpy.typing import NDArray
from PIL import Image, ImageDraw, PngImagePlugin

from mediamill.processors.contract import ProcessorInput, RefusedMediaError
from mediamill.processors.model_image import LIMIT_BYTES, SIDE, ModelImageProcessor
from tests.media.making_images import (
    BLUE,
    RED,
    corner_names,
    corners,
    make_gif,
    make_png_header,
    make_tiff,
    with_orientation,
)

pytestmark = pytest.mark.spec("I10")

FOLDERS = itertools.count()


def noise(width: int, height: int, bands: int = 3) -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, (height, width, bands), np.uint8)


def shrink_all(path: Path, number: int | None = None) -> list[tuple[str, bytes]]:
    folder = path.parent / f"out-{next(FOLDERS)}"
    folder.mkdir()
    payload = {} if number is None else {"number": number}
    given = ProcessorInput(payload, None, path, folder, None, 1, lambda *_, **__: None)
    output = ModelImageProcessor((), 60).process(given)
    names = [output.files[f"image-{number}"] for number in range(1, len(output.files) + 1)]
    assert {file.name for file in folder.iterdir()} == set(names)
    made = [(folder / name).read_bytes() for name in names]
    assert output.result["bytes"] == sum(map(len, made)) <= LIMIT_BYTES
    return list(zip(output.result["mime_types"], made, strict=True))


def shrink(path: Path, number: int | None = None) -> tuple[str, bytes]:
    [only] = shrink_all(path, number)
    return only


def opened(small: tuple[str, bytes]) -> Image.Image:
    image = Image.open(io.BytesIO(small[1]))
    assert small[0] == f"image/{str(image.format).lower()}"
    image.load()
    return image


def refused(path: Path, number: int | None = None) -> str:
    with pytest.raises(RefusedMediaError) as raised:
        shrink(path, number)
    assert raised.value.code == "image_unreadable"
    return raised.value.message


def test_a_large_photo_becomes_a_jpeg_of_1568(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    pyvips.Image.new_from_array(corners(4000, 3000)).jpegsave(str(path))

    image = opened(shrink(path))

    assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (1568, 1176))
    assert corner_names(np.asarray(image)) == "rgby"


@pytest.mark.parametrize("size", [(1, 1), (32, 20), (1568, 10), (1, 1568), (1567, 1568)])
@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp", "gif"])
def test_nothing_is_enlarged(tmp_path: Path, size: tuple[int, int], suffix: str) -> None:
    path = tmp_path / "image"
    Image.fromarray(corners(*size)).save(path, suffix)

    assert opened(shrink(path)).size == size


def test_the_thinnest_image_keeps_a_row(tmp_path: Path) -> None:
    path = tmp_path / "line.png"
    Image.new("RGB", (20_000, 1), RED).save(path)

    assert {opened(part).height for part in shrink_all(path)} == {1}


@pytest.mark.spec("I13")
@pytest.mark.parametrize("upright", [True, False], ids=["down", "across"])
def test_a_long_screenshot_comes_in_parts_that_can_be_read(tmp_path: Path, upright: bool) -> None:
    path = tmp_path / "screen.png"
    screen = Image.new("RGB", (1080, 12_000), "white")
    rows = ImageDraw.Draw(screen)
    for number in range(12):
        rows.rectangle((0, number * 1000, 1080, number * 1000 + 40), fill=(number * 20, 0, 0))
    (screen if upright else screen.transpose(Image.Transpose.ROTATE_90)).save(path)

    parts = [opened(part) for part in shrink_all(path)]
    assert len(parts) == 6
    sizes = {(min(part.size), max(part.size) <= SIDE) for part in parts}
    assert sizes == {(784, True)}
    turned = parts if upright else [part.transpose(Image.Transpose.ROTATE_270) for part in parts]
    seen: list[int] = []
    for part in turned:
        reds = np.asarray(part.convert("RGB"))[:, 300]
        seen += [round(int(red) / 20) for red, green, _ in reds if green < 40]
    assert list(dict.fromkeys(seen)) == list(range(12)), "all of it, in order"
    first, second = (np.asarray(part) for part in turned[:2])
    assert np.array_equal(first[-64:], second[:64]), "they overlap: no line is cut in two"


@pytest.mark.spec("I13")
def test_parts_of_the_noisiest_long_image_are_no_larger_together_than_another_image(tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    Image.fromarray(noise(1000, 8000).transpose(1, 0, 2)).save(path)

    assert len(shrink_all(path)) > 1


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    with_orientation(np.ascontiguousarray(np.rot90(corners(1600, 1000), 1)), 6).jpegsave(str(path))

    image = opened(shrink(path))

    assert image.size == (1568, 980)
    assert corner_names(np.asarray(image)) == "rgby"
    assert not image.getexif()


@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp"])
def test_no_metadata_are_left(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "image"
    exif = make_tiff(
        [[(271, 2, b"SECRETCAMERA\0"), (34853, 4, ["ifd:1"])], [(1, 2, b"N\0"), (29, 2, b"SECRETDAY\0")]]
    )
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "SECRETNOTE")
    xmp = b"<x:xmpmeta>SECRETPLACE</x:xmpmeta>"
    profile = b"SECRETPROFILE" * 20
    more = {"pnginfo": text} if suffix == "png" else {"xmp": xmp}
    Image.fromarray(corners(64, 64)).save(path, suffix, exif=exif, icc_profile=profile, **more)
    assert path.read_bytes().count(b"SECRET") >= 3

    _, data = shrink(path)

    assert b"SECRET" not in data
    kept = set(opened(("image/png" if data.startswith(b"\x89PNG") else "image/jpeg", data)).info)
    assert not kept & {"exif", "icc_profile", "xmp", "comment", "Comment"}


def test_what_is_transparent_stays_so_as_a_png(tmp_path: Path) -> None:
    for suffix in ("png", "webp"):
        path = tmp_path / f"cut-out.{suffix}"
        cut_out = Image.new("RGBA", (2000, 1000), (0, 0, 0, 0))
        ImageDraw.Draw(cut_out).ellipse((500, 100, 1500, 900), fill=RED)
        cut_out.save(path)

        image = opened(shrink(path))

        assert (image.format, image.mode, image.size) == ("PNG", "RGBA", (1568, 784))
        assert image.getpixel((0, 0))[3] == 0  # type: ignore[index]
        assert image.getpixel((784, 392)) == (*RED, 255) or suffix == "webp"


def test_a_transparent_photo_that_is_too_large_lies_on_white(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    pixels = noise(1568, 1568, 4)
    pixels[:400, :, 3] = 0
    Image.fromarray(pixels, "RGBA").save(path)

    image = opened(shrink(path))

    assert (image.format, image.mode) == ("JPEG", "RGB")
    assert np.asarray(image)[10, image.width // 2].min() > 240


def test_an_alpha_that_says_nothing_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    Image.fromarray(noise(300, 200)).convert("RGBA").save(path)

    assert opened(shrink(path)).mode == "RGB"


def test_a_screenshot_stays_a_png_and_a_photo_in_one_does_not(tmp_path: Path) -> None:
    screen, photo = tmp_path / "screen.png", tmp_path / "photo.png"
    drawing = Image.new("RGB", (1400, 900), "white")
    for row in range(30):
        ImageDraw.Draw(drawing).text(
            (20, 20 + 28 * row), "the quick brown fox " * 5, fill="black", font_size=18
        )
    drawing.save(screen)
    Image.fromarray(noise(400, 300)).save(photo)

    assert np.array_equal(np.asarray(opened(shrink(screen))), np.asarray(drawing))
    assert opened(shrink(photo)).format == "JPEG"


def test_of_an_animation_the_first_frame_is_taken(tmp_path: Path) -> None:
    for suffix in ("gif", "webp"):
        path = tmp_path / f"moving.{suffix}"
        frames = [Image.new("RGB", (200, 100), colour) for colour in (RED, BLUE, BLUE)]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=100, lossless=True)

        image = opened(shrink(path))

        assert (getattr(image, "n_frames", 1), image.size) == (1, (200, 100))
        assert np.abs(np.asarray(image.convert("RGB"))[50, 100].astype(int) - RED).max() < 8


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    path = tmp_path / "print.jpg"
    Image.fromarray(corners(800, 600)).convert("CMYK").save(path, quality=95)

    image = opened(shrink(path))

    assert image.mode == "RGB"
    assert corner_names(np.asarray(image)) == "rgby"


@pytest.mark.parametrize("alpha", [False, True])
def test_16_bits_become_8(tmp_path: Path, alpha: bool) -> None:
    path = tmp_path / "deep.png"
    deep = corners(400, 300).astype(np.uint16) * 257
    if alpha:
        deep = np.dstack([deep, np.full((300, 400), 128 * 257, np.uint16)])
    pyvips.Image.new_from_array(deep).copy(interpretation="rgb16").pngsave(str(path))
    assert path.read_bytes()[24] == 16

    image = opened(shrink(path))

    assert image.mode == ("RGBA" if alpha else "RGB")
    pixels = np.asarray(image)
    assert corner_names(pixels[:, :, :3]) == "rgby"
    assert not alpha or set(np.unique(pixels[:, :, 3])) == {128}


@pytest.mark.parametrize("mode", ["L", "LA", "P", "1", "I;16"])
def test_grey_and_palettes_become_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "grey.png"
    Image.new("L", (50, 40), 200).convert(mode).save(path)

    assert opened(shrink(path)).mode == "RGB"


def test_a_wide_gamut_is_brought_into_srgb(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    plain = pyvips.Image.new_from_array(np.full((40, 40, 3), (0, 200, 0), np.uint8)).copy(
        interpretation="srgb"
    )
    plain.icc_export(output_profile="p3", depth=8).pngsave(str(path), profile="p3")
    assert b"iCCP" in path.read_bytes()

    red, green, blue = np.asarray(opened(shrink(path)).convert("RGB"))[20, 20].astype(int)

    assert abs(green - 200) < 6
    assert max(red, blue) < 12


def test_the_worst_of_noise_is_below_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    Image.fromarray(noise(1568, 1568)).save(path)

    assert opened(shrink(path)).format == "JPEG"  # and `shrink` looks at the limit


def test_the_bytes_decide_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    Image.fromarray(corners(64, 64)).save(path, "WEBP")

    assert opened(shrink(path)).size == (64, 64)


def test_a_torn_photo_is_used_while_most_of_it_is_there(tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole.jpg", tmp_path / "torn.jpg"
    Image.fromarray(noise(600, 400)).save(whole, quality=80)
    data = whole.read_bytes()

    torn.write_bytes(data[: len(data) * 9 // 10])
    assert opened(shrink(torn)).size == (600, 400)
    torn.write_bytes(data[: len(data) // 10])
    assert refused(torn, 3) == "image 3 cannot be read: it is damaged"


def test_what_is_no_image_is_refused_without_a_word_of_it(tmp_path: Path) -> None:
    text, empty, head = tmp_path / "text.png", tmp_path / "empty.png", tmp_path / "head.png"
    text.write_text("my secret diary\n" * 100)
    empty.write_bytes(b"")
    head.write_bytes(b"\x89PNG\r\n\x1a\nmy secret diary" * 10)

    assert refused(text, 2) == "image 2 cannot be read: it is no JPEG, PNG, WebP or GIF"
    assert refused(empty, 1) == "image 1 cannot be read: the file is empty"
    assert "secret" not in refused(head)
    assert refused(tmp_path / "gone.png") == "the image cannot be read: it is not there (any more)"


def test_other_types_are_refused(tmp_path: Path) -> None:
    for suffix in ("tiff", "bmp"):
        path = tmp_path / f"image.{suffix}"
        Image.fromarray(corners(20, 20)).save(path)
        assert refused(path).endswith("it is no JPEG, PNG, WebP or GIF")


def test_bombs_are_refused_by_their_header(tmp_path: Path) -> None:
    png, gif = tmp_path / "bomb.png", tmp_path / "bomb.gif"
    make_png_header(png, 100_000, 100_000)
    make_gif(gif, 65_000, 65_000, 1)

    assert refused(png, 7).startswith("image 7 cannot be read: the PNG image has 100000 × 100000 pixels")
    assert "65000 × 65000" in refused(gif)


def test_the_order_of_images_makes_no_difference(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for number, path in enumerate(paths):
        Image.fromarray(corners(100 + 50 * number, 80)).save(path)
    broken = tmp_path / "broken.png"
    broken.write_bytes(paths[0].read_bytes()[:60])

    forth = [shrink(path) for path in paths]
    refused(broken)
    back = [shrink(path) for path in reversed(paths)]

    assert forth == back[::-1]
