"""An image as a model shall get it: small, upright, sRGB, one frame, and nothing of its metadata (places!).

Opaque ones become JPEG, unless they came without loss and are smaller as PNG, as screenshots are. Transparent ones
stay PNG if that is small enough, else they lie on white.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyvips

from mediamill.media.errors import (
    EmptyMediaError,
    MediaError,
    MediaTooLargeError,
    MissingMediaError,
    UnsupportedMediaError,
)
from mediamill.media.images import WHITE, fit, read_picture
from mediamill.media.sniff import sniff
from mediamill.processors.contract import ProcessorInput, ProcessorOutput, RefusedMediaError

MIME_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")
SIDE = 1568  # beyond it, models reduce images themselves
LIMIT_BYTES = 1_400_000  # ten are less than 14 MiB
STEPS = (
    (SIDE, 85),
    (SIDE, 70),
    (SIDE, 50),
    (1024, 50),
    (512, 50),
)  # side and quality; the last fits any noise
LOSSLESS = ("PNG", "GIF")
OPAQUE = 255
UNREADABLE = "image_unreadable"
REASONS: dict[type[Exception], str] = {  # our own words: a decoder's might repeat some of the file
    MissingMediaError: "it is not there (any more)",
    EmptyMediaError: "the file is empty",
    UnsupportedMediaError: "it is no JPEG, PNG, WebP or GIF",
}


class ModelImageProcessor:
    """One image in, one derivative `image` out. The payload may have `number`: which of a message's images it is."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        del mime_types, timeout_seconds  # four types, whatever a pool says

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """Make it small, or tell why not, without a word of what is in it."""
        try:
            return _process(given)
        except (MediaError, pyvips.Error) as error:
            number = given.payload.get("number")
            which = f"image {number}" if isinstance(number, int) else "the image"
            told = f"{which} cannot be read: {_reason(error)}"
            raise RefusedMediaError(told, notice=f"[{told[0].upper()}{told[1:]}]", code=UNREADABLE) from error


def _process(given: ProcessorInput) -> ProcessorOutput:
    path, mime_type = _inspect(given)
    picture = read_picture(path, mime_type, SIDE)
    image = _opaque_if_it_is(picture.image.colourspace("srgb")).copy_memory()
    told, data = encode(image, lossless=picture.facts.format in LOSSLESS)
    name = f"image.{told.removeprefix('image/')}"
    (given.folder / name).write_bytes(data)
    result = {"mime_type": told, "bytes": len(data), "truncated": picture.facts.truncated}
    return ProcessorOutput(result, {"image": name})


def encode(image: pyvips.Image, *, lossless: bool) -> tuple[str, bytes]:
    """The mime type and the bytes of an image that is in memory. `lossless`: it came so."""
    jpeg = b""
    if not image.hasalpha():
        jpeg = _encode_jpeg(image)
        if not lossless:
            return "image/jpeg", jpeg
    png: bytes = image.pngsave_buffer(compression=6, keep="none")
    if len(png) <= (len(jpeg) or LIMIT_BYTES):
        return "image/png", png
    return "image/jpeg", jpeg or _encode_jpeg(image.flatten(background=WHITE).copy_memory())


def _encode_jpeg(image: pyvips.Image) -> bytes:
    data = b""
    for side, quality in STEPS:
        data = fit(image, side).jpegsave_buffer(Q=quality, keep="none")
        if len(data) <= LIMIT_BYTES:
            break
    return data


def _inspect(given: ProcessorInput) -> tuple[Path, str]:
    """The file and its real type, whatever was claimed."""
    path = given.file
    if path is None or not path.is_file():
        raise MissingMediaError
    if path.stat().st_size == 0:
        raise EmptyMediaError
    mime_type = sniff(path).mime_type
    if mime_type not in MIME_TYPES:
        raise UnsupportedMediaError
    return path, mime_type


def _opaque_if_it_is(image: pyvips.Image) -> pyvips.Image:
    """Without an alpha channel that says nothing, as screenshots have."""
    if image.hasalpha() and image[-1].min() == OPAQUE:
        return image[: image.bands - 1]
    return image


def _reason(error: Exception) -> str:
    if isinstance(error, MediaTooLargeError):
        return error.message  # all numbers
    return REASONS.get(type(error), "it is damaged")
