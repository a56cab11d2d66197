"""An image as a model shall get it: small, upright, sRGB, one frame, and nothing of its metadata (places!).

A long one, as a screenshot of a whole page, is cut into parts that overlap a little: in one piece nobody could read it.

Opaque ones become JPEG, unless they came without loss and are smaller as PNG, as screenshots are. Transparent ones
stay PNG if that is small enough, else they lie on white.
"""

from __future__ import annotations

import math
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
LIMIT_BYTES = 1_400_000  # with all its parts; ten images are less than 14 MiB
LONG = 2.5  # so many times as long as it is wide: reduced in one piece, nobody could read it
PART_WIDTH, OVERLAP, MOST_PARTS = 784, 64, 6
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
    """One image in; out comes the derivative `image-1`, of a long image also `image-2` and so on, in order.

    The payload may have `number`: which of a message's images it is.
    """

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
    if side := _long_side(picture.facts.width, picture.facts.height):
        picture = read_picture(path, mime_type, side)
    parts = _cut(_opaque_if_it_is(picture.image.colourspace("srgb")).copy_memory())
    lossless, limit = picture.facts.format in LOSSLESS, LIMIT_BYTES // len(parts)
    files: dict[str, str] = {}
    mime_types, size = [], 0
    for number, part in enumerate(parts, 1):
        told, data = encode(part, lossless=lossless, limit=limit)
        files[f"image-{number}"] = f"image-{number}.{told.removeprefix('image/')}"
        (given.folder / files[f"image-{number}"]).write_bytes(data)
        mime_types.append(told)
        size += len(data)
    result = {"mime_types": mime_types, "bytes": size, "truncated": picture.facts.truncated}
    return ProcessorOutput(result, files)


def _long_side(width: int, height: int) -> int:
    """How long a long image shall be, so that its parts are as wide as they may be; 0: it is none."""
    long, short = max(width, height), min(width, height)
    if long <= SIDE or long < LONG * short:
        return 0
    return min(long, long * PART_WIDTH // short or SIDE, MOST_PARTS * (SIDE - OVERLAP) + OVERLAP)


def _cut(image: pyvips.Image) -> list[pyvips.Image]:
    """Parts of one length along the longer side, from the top down or from left to right."""
    long = max(image.width, image.height)
    if long <= SIDE:
        return [image]
    count = math.ceil((long - OVERLAP) / (SIDE - OVERLAP))
    length = math.ceil((long + (count - 1) * OVERLAP) / count)
    starts = [min(number * (length - OVERLAP), long - length) for number in range(count)]
    if image.height >= image.width:
        return [image.crop(0, start, image.width, length).copy_memory() for start in starts]
    return [image.crop(start, 0, length, image.height).copy_memory() for start in starts]


def encode(image: pyvips.Image, *, lossless: bool, limit: int = LIMIT_BYTES) -> tuple[str, bytes]:
    """The mime type and the bytes of an image that is in memory. `lossless`: it came so."""
    jpeg = b""
    if not image.hasalpha():
        jpeg = _encode_jpeg(image, limit)
        if not lossless:
            return "image/jpeg", jpeg
    png: bytes = image.pngsave_buffer(compression=6, keep="none")
    if len(png) <= (len(jpeg) or limit):
        return "image/png", png
    return "image/jpeg", jpeg or _encode_jpeg(image.flatten(background=WHITE).copy_memory(), limit)


def _encode_jpeg(image: pyvips.Image, limit: int) -> bytes:
    data = b""
    for side, quality in STEPS:
        data = fit(image, side).jpegsave_buffer(Q=quality, keep="none")
        if len(data) <= limit:
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
