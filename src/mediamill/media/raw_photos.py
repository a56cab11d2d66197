"""Raw photos of cameras: the preview that the camera left in the file, or the sensor's data developed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyvips
import rawpy

from mediamill.media.errors import DamagedMediaError, MediaTooLargeError
from mediamill.media.image_limits import check_size
from mediamill.media.image_loaders import Opened, pyvips_from, set_up_vips
from mediamill.media.raw_notes import read_notes

MAX_RAW_BYTES = 256 * 1024 * 1024  # the file is read into memory
LEAST_PREVIEW_SIDE = 640  # smaller previews are thumbnails for the camera's display
ORIENTATIONS = {0: 1, 3: 3, 5: 8, 6: 6}  # LibRaw's flip -> EXIF's orientation


def open_raw(descriptor: int, side: int, *, ignore_previews: bool = False) -> Opened:
    """The camera's preview if it is large enough, else a rendering; a preview of any size if that fails."""
    data = _read_all(descriptor)
    with _libraw(data) as raw:
        sizes = raw.sizes
        width, height = sizes.width, sizes.height
        check_size("raw photo", sizes.raw_width, sizes.raw_height, 2)
        preview = None if ignore_previews else _preview(raw, ORIENTATIONS.get(sizes.flip, 1), side)
        if preview is None or max(preview.width, preview.height) < min(
            LEAST_PREVIEW_SIDE, max(width, height)
        ):
            preview = _developed_or(preview, raw, side)
        orientation = int(preview.get("orientation")) if preview.get_typeof("orientation") else 1
        return Opened(preview, width, height, "RAW", 1, 16, orientation, read_notes(data))


def _read_all(descriptor: int) -> bytes:
    """The whole file: LibRaw would open it anew, and more than once."""
    size = os.fstat(descriptor).st_size
    if size > MAX_RAW_BYTES:
        raise MediaTooLargeError(
            f"the raw photo has {size / 1e6:.0f} MB; at most {MAX_RAW_BYTES / 1e6:.0f} are opened"
        )
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(MAX_RAW_BYTES)


@contextmanager
def _libraw(data: bytes) -> Iterator[Any]:
    try:
        with rawpy.imread(io.BytesIO(data)) as raw:
            yield raw
    except (rawpy.LibRawError, OSError, ValueError, pyvips.Error) as error:
        reason = error.args[0] if error.args else type(error).__name__
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise DamagedMediaError(f"the raw photo is damaged: {reason.splitlines()[0][:200]}") from error


def _preview(raw: Any, orientation: int, side: int) -> pyvips.Image | None:
    """What the camera made. Its orientation: its own, or that of the photo if it says none."""
    set_up_vips()
    try:
        thumb = raw.extract_thumb()
        if thumb.format != rawpy.ThumbFormat.JPEG:
            return _turned(pyvips_from(thumb.data), orientation)
        header = pyvips.Image.jpegload_buffer(thumb.data)
        check_size("preview in the raw photo", header.width, header.height, 6)
        shrink = 1
        while shrink < 8 and max(header.width, header.height) >= side * shrink * 2:
            shrink *= 2
        image = pyvips.Image.jpegload_buffer(thumb.data, shrink=shrink, fail_on="error").copy_memory()
    except (
        rawpy.LibRawNoThumbnailError,
        rawpy.LibRawUnsupportedThumbnailError,
        rawpy.LibRawError,
        pyvips.Error,
    ):
        return None
    return image if image.get_typeof("orientation") else _turned(image, orientation)


def _turned(image: pyvips.Image, orientation: int) -> pyvips.Image:
    image = image.copy()
    image.set_type(pyvips.GValue.gint_type, "orientation", orientation)
    return image


def _developed_or(preview: pyvips.Image | None, raw: Any, side: int) -> pyvips.Image:
    """Developed at half the size if that is enough: then no colour needs to be guessed, at a quarter of the cost."""
    sizes = raw.sizes
    half = max(sizes.width, sizes.height) >= side * 2
    try:
        check_size("raw photo", sizes.raw_width, sizes.raw_height, 5 if half else 14)
        pixels = raw.postprocess(use_camera_wb=True, half_size=half, output_bps=8, user_flip=0)
    except rawpy.LibRawError:
        if preview is None:
            raise
        return preview
    return _turned(pyvips_from(pixels), ORIENTATIONS.get(sizes.flip, 1))
