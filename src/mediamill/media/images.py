"""Images of strangers as pixels: opened once, within limits, upright, in sRGB, no larger than asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyvips
from numpy.typing import NDArray

from mediamill.media.errors import DamagedMediaError, UnsupportedMediaError
from mediamill.media.exif import Exif
from mediamill.media.image_limits import MAX_FRAMES, MAX_PIXELS
from mediamill.media.image_loaders import LOADERS, Loader, Opened, first_line
from mediamill.media.raw_photos import open_raw
from mediamill.media.source_file import Source, opened

Pixels = NDArray[np.uint8]  # height × width × 3, RGB, upright

WHITE = (255, 255, 255)
ANIMATED = ("GIF", "WebP")  # formats whose pages are frames
LEAST_PART = 0.5  # of the rows of a torn image that must be there for it to be used


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image is. Width and height are those of the source, upright."""

    width: int
    height: int
    format: str  # JPEG, PNG …
    pages: int  # frames of an animation, pages of a TIFF
    has_alpha: bool
    has_profile: bool  # an ICC profile
    bits: int  # of one channel
    truncated: bool  # its end is missing or its data are damaged: the rest was used
    exif: Exif
    orientation: int = 1  # as stored, EXIF's 1 to 8; it has been applied


@dataclass(frozen=True, slots=True)
class Picture:
    """An image in memory, reduced and upright, in sRGB or grey, perhaps with alpha."""

    image: pyvips.Image
    facts: ImageFacts


def read_picture(source: Source, mime_type: str, side: int, *, ignore_previews: bool = False) -> Picture:
    """Decode an image so that it fits into a square; smaller ones keep their size.

    `ignore_previews`: raw photos are developed, even if the camera left a preview in them.
    """
    if mime_type in LOADERS:
        return _read_whole_or_torn(source, LOADERS[mime_type], side)
    if mime_type.startswith("image/x-"):  # so is every camera's raw format called
        return _read_raw(source, side, ignore_previews=ignore_previews)
    raise UnsupportedMediaError(f"images of type {mime_type} are not supported")


def load_pixels(path: Path, mime_type: str, max_side: int) -> Pixels:
    """The pixels of an image, of its first frame if it has several; alpha lies on white."""
    return to_pixels(read_picture(path, mime_type, max_side))


def load_frames(path: Path, mime_type: str, max_side: int, count: int) -> list[Pixels]:
    """A few frames of an animation, the first among them, evenly apart; of a still image the only one."""
    first = read_picture(path, mime_type, max_side)
    return [
        to_pixels(frame) for frame in (first, *later_frames(path, mime_type, max_side, count, first.facts))
    ]


def later_frames(path: Path, mime_type: str, max_side: int, count: int, facts: ImageFacts) -> list[Picture]:
    """What `load_frames` gives, without the first frame, for those who have read it already."""
    frames: list[Picture] = []
    for page in _later_pages(facts, count):
        try:
            frames.append(_read(path, LOADERS[mime_type], max_side, "error", page=page))
        except DamagedMediaError:  # torn behind the first frame, which is enough
            break
    return frames


def _later_pages(facts: ImageFacts, count: int) -> list[int]:
    if facts.format not in ANIMATED:
        return []
    # A frame is drawn on the ones before it, so reaching it costs all of them.
    affordable = MAX_PIXELS // (facts.width * facts.height)
    last = min(facts.pages, MAX_FRAMES, affordable) - 1
    return sorted({round(last * step / (count - 1)) for step in range(1, count)} - {0}) if last > 0 else []


def to_pixels(
    picture: Picture, max_side: int | None = None, background: tuple[int, int, int] = WHITE
) -> Pixels:
    """Three bytes a pixel, for models; alpha lies on the background."""
    image = picture.image
    if max_side is not None:
        image = fit(image, max_side)
    if image.hasalpha():
        image = image.flatten(background=background)
    if image.bands != 3:
        image = image.colourspace("srgb")
    return np.ascontiguousarray(image.numpy(), dtype=np.uint8)


def fit(image: pyvips.Image, side: int) -> pyvips.Image:
    """The image reduced into a square, never enlarged."""
    if max(image.width, image.height) <= side:
        return image
    return image.thumbnail_image(side, height=side, size="down", no_rotate=True)


def encode_jpeg(pixels: Pixels, quality: int = 85) -> bytes:
    """Pixels as a JPEG file."""
    image = pyvips.Image.new_from_array(pixels)
    data: bytes = image.jpegsave_buffer(Q=quality, keep="none")
    return data


def _read_raw(source: Source, side: int, *, ignore_previews: bool) -> Picture:
    """By LibRaw. What it does not know is often a TIFF with a picture that libvips can read."""
    try:
        with opened(source) as descriptor:
            return _reduce(open_raw(descriptor, side, ignore_previews=ignore_previews), side)
    except DamagedMediaError as error:
        try:
            return _read(source, LOADERS["image/tiff"], side, "error")
        except DamagedMediaError:
            raise error from None


def _read_whole_or_torn(source: Source, loader: Loader, side: int) -> Picture:
    try:
        return _read(source, loader, side, "error")
    except DamagedMediaError as error:
        if not loader.survives_damage:
            raise
        picture = _read(source, loader, side, "none")
        if _part_there(to_pixels(picture)) < LEAST_PART:
            raise DamagedMediaError(f"{error.message}; most of it is missing") from error
        return picture


def _read(source: Source, loader: Loader, side: int, fail_on: str, page: int = 0) -> Picture:
    """Header and pixels are read through the same descriptor."""
    with opened(source) as descriptor, _named_errors(loader.name):
        return _reduce(loader.open(descriptor, side, fail_on, page), side, torn=fail_on == "none")


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    try:
        yield
    except pyvips.Error as error:
        reason = first_line(error.detail or error)
        raise DamagedMediaError(f"the {name} image is damaged: {reason}") from error


def _reduce(found: Opened, side: int, *, torn: bool = False) -> Picture:
    """Decode, as far as the rows are needed; from here on the image is small and in memory."""
    source = found.image
    image = source.thumbnail_image(side, height=side, size="down", no_rotate=True)
    image = _to_srgb(image.copy_memory(), source).autorot()
    turned = found.orientation >= 5
    facts = ImageFacts(
        width=found.height if turned else found.width,
        height=found.width if turned else found.height,
        format=found.format,
        pages=found.pages,
        has_alpha=bool(source.hasalpha()),
        has_profile=source.get_typeof("icc-profile-data") != 0,
        bits=found.bits,
        truncated=torn,
        exif=found.exif,
        orientation=found.orientation,
    )
    return Picture(image.copy_memory(), facts)


def _to_srgb(image: pyvips.Image, source: pyvips.Image) -> pyvips.Image:
    """Colours as a screen shows them; after the reduction, where it costs little."""
    if source.interpretation != "cmyk" and _has_other_profile(image):
        try:
            image = image.icc_transform("srgb", embedded=True, depth=8).copy_memory()
        except pyvips.Error:  # a broken profile: the numbers as they are
            image = image.copy()
            image.remove("icc-profile-data")
    if image.interpretation not in ("srgb", "b-w"):
        image = image.colourspace("b-w" if image.bands < 3 else "srgb")
    return image if image.format == "uchar" else image.cast("uchar")


def _has_other_profile(image: pyvips.Image) -> bool:
    if image.get_typeof("icc-profile-data") == 0:
        return False
    profile = bytes(image.get("icc-profile-data"))
    return b"sRGB" not in profile and "sRGB".encode("utf-16-be") not in profile


def _part_there(pixels: Pixels) -> float:
    """How much of a torn image was decoded: the missing rows at its end are all of one colour."""
    same = np.all(pixels == pixels[-1, -1], axis=(1, 2))
    missing = len(same) if same.all() else int(np.argmin(same[::-1]))
    return 1 - missing / len(same)
