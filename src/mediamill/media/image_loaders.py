"""The formats that are opened, each by one loader that is named here; libvips may not choose others by itself."""

from __future__ import annotations

import functools
import io
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyvips

from mediamill.media.errors import DamagedMediaError, MediaTooLargeError
from mediamill.media.exif import Exif
from mediamill.media.image_limits import check_size
from mediamill.media.peek import FileBytes

MAX_HEIC_BYTES = 256 * 1024 * 1024  # the file is read into memory
MAX_ANIMATION_BYTES = 64 * 1024 * 1024  # a frame may take 14 bytes in a file, and six times that in memory
VIPS_LOADERS = ("Jpeg", "Png", "Webp", "Nsgif", "Tiff", "Heif")


@dataclass(frozen=True, slots=True)
class Opened:
    """An image whose pixels are not decoded yet (or in memory already, where the format wants that)."""

    image: pyvips.Image
    width: int  # of the source, as stored: before its orientation is applied
    height: int
    format: str
    pages: int
    bits: int
    orientation: int  # EXIF's 1 to 8
    exif: Exif
    owner: object = None  # whose memory the pixels are in, if libvips does not know it


@dataclass(frozen=True, slots=True)
class Loader:
    """How one format is opened. `open` gets a descriptor, the side that is wanted, `fail_on` and a page."""

    name: str
    open: Callable[[int, int, str, int], Opened]
    survives_damage: bool = False  # libvips can go on behind an error


@functools.cache
def set_up_vips() -> None:
    """One thread (there is a process for each core), no cache of strangers' images, no loaders but ours."""
    logging.getLogger("pyvips").setLevel(logging.ERROR)  # it warns of every damaged file
    pyvips.concurrency_set(1)
    pyvips.cache_set_max(0)
    pyvips.block_untrusted_set(True)
    pyvips.operation_block_set("VipsForeignLoad", True)
    for name in VIPS_LOADERS:
        pyvips.operation_block_set(f"VipsForeignLoad{name}", False)


def _vips(name: str, descriptor: int) -> Callable[..., pyvips.Image]:
    set_up_vips()
    load = getattr(pyvips.Image, f"{name}load_source")
    source = pyvips.Source.new_from_descriptor(descriptor)
    return functools.partial(load, source, access="sequential")


def _opened(name: str, image: pyvips.Image, header: pyvips.Image, exif: Exif | None = None) -> Opened:
    return Opened(
        image,
        header.width,
        header.height,
        name,
        pages=_number(header, "n-pages", 1),
        bits=_number(header, "bits-per-sample", 16 if header.format == "ushort" else 8),
        orientation=_number(header, "orientation", 1),
        exif=exif or Exif(_bytes(header, "exif-data"), _bytes(header, "xmp-data"), _created(header)),
    )


def _bytes(image: pyvips.Image, field: str) -> bytes:
    return bytes(image.get(field)) if image.get_typeof(field) else b""


def _created(image: pyvips.Image) -> str:
    """A PNG's text of when it was made."""
    fields = (name for name in image.get_fields() if name.startswith("png-comment-"))
    return next((str(image.get(name)) for name in fields if name.endswith("-Creation Time")), "")


def _number(image: pyvips.Image, field: str, default: int) -> int:
    return int(image.get(field)) if image.get_typeof(field) else default


def open_jpeg(descriptor: int, side: int, fail_on: str, _page: int) -> Opened:
    """The decoder itself reduces: by the largest of 1, 2, 4, 8 that leaves the side or more."""
    load = _vips("jpeg", descriptor)
    header = load(fail_on=fail_on)
    # A progressive image is held as coefficients of two bytes until its last scan.
    check_size(
        "JPEG image",
        header.width,
        header.height,
        2 * header.bands if _number(header, "jpeg-multiscan", 0) else 0,
    )
    shrink = 1
    while shrink < 8 and max(header.width, header.height) >= side * shrink * 2:
        shrink *= 2
    image = load(fail_on=fail_on, shrink=shrink) if shrink > 1 else header
    return _opened("JPEG", image, header)


def open_png(descriptor: int, _side: int, fail_on: str, _page: int) -> Opened:
    """Row by row; an interlaced one as a whole."""
    image = _vips("png", descriptor)(fail_on=fail_on)
    depth = image.bands * (2 if image.format == "ushort" else 1)
    check_size("PNG image", image.width, image.height, depth if image.get_typeof("interlaced") else 0)
    return _opened("PNG", image, image)


def open_webp(descriptor: int, side: int, fail_on: str, page: int) -> Opened:
    """The decoder reduces, but holds lossless and animated images as a whole."""
    _check_file(descriptor, "WebP image", MAX_ANIMATION_BYTES)
    load = _vips("webp", descriptor)
    header = load(fail_on=fail_on, page=page)
    check_size("WebP image", header.width, header.height, 8)
    scale = side / max(header.width, header.height)
    image = load(fail_on=fail_on, page=page, scale=scale) if scale < 1 else header
    return _opened("WebP", image, header)


def open_gif(descriptor: int, _side: int, fail_on: str, page: int) -> Opened:
    """As a whole: the frame, the one before it, and the canvas."""
    _check_file(descriptor, "GIF image", MAX_ANIMATION_BYTES)
    image = _vips("gif", descriptor)(fail_on=fail_on, page=page)
    check_size("GIF image", image.width, image.height, 12)
    return _opened("GIF", image, image)


def open_tiff(descriptor: int, _side: int, fail_on: str, _page: int) -> Opened:
    """Strip by strip; the library refuses strips and tiles that would take too much."""
    image = _vips("tiff", descriptor)(fail_on=fail_on)
    check_size("TIFF image", image.width, image.height)
    return _opened("TIFF", image, image, Exif(FileBytes(descriptor)))


def open_avif(descriptor: int, _side: int, fail_on: str, _page: int) -> Opened:
    """As a whole: planes, then pixels."""
    image = _vips("heif", descriptor)(fail_on=fail_on)
    check_size(
        "AVIF image", image.width, image.height, 2 * image.bands * (2 if image.format == "ushort" else 1)
    )
    return _opened("AVIF", image, image)


def open_heic(descriptor: int, _side: int, _fail_on: str, _page: int) -> Opened:
    """By libheif with an HEVC decoder, which libvips' own lacks. It turns the image upright by itself."""
    import pi_heif

    _check_file(descriptor, "HEIC image", MAX_HEIC_BYTES)
    pi_heif.options.DECODE_THREADS = 1
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            heif = pi_heif.open_heif(io.BytesIO(file.read(MAX_HEIC_BYTES)))
        width, height = heif.size
        check_size("HEIC image", width, height, 6)
        pixels = np.asarray(heif)  # lives only as long as `heif`, and its rows may be padded
        exif = Exif(bytes(heif.info.get("exif") or b""), bytes(heif.info.get("xmp") or b""))
    except (ValueError, EOFError, SyntaxError, RuntimeError, OSError, TypeError) as error:
        raise DamagedMediaError(f"the HEIC image is damaged: {first_line(error)}") from error
    image = pyvips_from(pixels, heif.info.get("icc_profile")).crop(0, 0, width, height)
    return Opened(image, width, height, "HEIC", 1, int(heif.info.get("bit_depth") or 8), 1, exif, owner=heif)


def open_bmp(descriptor: int, _side: int, _fail_on: str, _page: int) -> Opened:
    """By Pillow, since libvips has no loader for it."""
    from PIL import Image

    try:
        with os.fdopen(os.dup(descriptor), "rb") as file, Image.open(file, formats=["BMP"]) as bitmap:
            check_size("BMP image", *bitmap.size, 7)
            pixels = np.asarray(bitmap.convert("RGB"))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MediaTooLargeError(f"the BMP image has too many pixels: {error}") from error
    except (ValueError, EOFError, SyntaxError, OSError, TypeError, IndexError) as error:
        raise DamagedMediaError(f"the BMP image is damaged: {first_line(error)}") from error
    return Opened(pyvips_from(pixels), pixels.shape[1], pixels.shape[0], "BMP", 1, 8, 1, Exif())


def first_line(error: Exception | str) -> str:
    """What a library says of a damaged file, as the end of a sentence of ours."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else "it cannot be decoded"


def pyvips_from(pixels: Any, profile: bytes | None = None) -> pyvips.Image:
    """Pixels of another decoder; libvips takes them without a copy."""
    set_up_vips()
    image = pyvips.Image.new_from_array(pixels)
    if image.bands >= 3:
        image = image.copy(interpretation="srgb")
    if profile:
        image = image.copy()
        image.set_type(pyvips.GValue.blob_type, "icc-profile-data", profile)
    return image


def _check_file(descriptor: int, what: str, limit: int) -> None:
    size = os.fstat(descriptor).st_size
    if size > limit:
        raise MediaTooLargeError(
            f"the file of the {what} has {size / 1e6:.0f} MB; at most {limit / 1e6:.0f} MB of this kind are opened"
        )


LOADERS = {
    "image/jpeg": Loader("JPEG", open_jpeg, survives_damage=True),
    "image/png": Loader("PNG", open_png, survives_damage=True),
    "image/webp": Loader("WebP", open_webp),
    "image/gif": Loader("GIF", open_gif, survives_damage=True),
    "image/tiff": Loader("TIFF", open_tiff, survives_damage=True),
    "image/avif": Loader("AVIF", open_avif),
    "image/heic": Loader("HEIC", open_heic),
    "image/heif": Loader("HEIC", open_heic),
    "image/bmp": Loader("BMP", open_bmp),
}
