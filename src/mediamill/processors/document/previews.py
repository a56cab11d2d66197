"""Small pictures of the first page of a PDF file."""

from __future__ import annotations

from pathlib import Path

import pyvips

from mediamill.media.images import fit
from mediamill.processors.document.pdf import draw_pages
from mediamill.processors.image.proxies import (
    PREVIEW_FILE,
    PREVIEW_SIDE,
    QUALITY,
    THUMBNAIL_FILE,
    THUMBNAIL_SIDE,
    WEBP_EFFORT,
)


def make_previews(path: Path, folder: Path) -> dict[str, str]:
    """The files by name; none if the page cannot be drawn."""
    _, pixels = next(draw_pages(path, [1], PREVIEW_SIDE))
    if pixels is None:
        return {}
    preview = pyvips.Image.new_from_array(pixels, interpretation="srgb")
    (folder / PREVIEW_FILE).write_bytes(preview.webpsave_buffer(Q=QUALITY, effort=WEBP_EFFORT, keep="none"))
    thumbnail = fit(preview, THUMBNAIL_SIDE)
    (folder / THUMBNAIL_FILE).write_bytes(thumbnail.jpegsave_buffer(Q=QUALITY, keep="none"))
    return {PREVIEW_FILE: PREVIEW_FILE, THUMBNAIL_FILE: THUMBNAIL_FILE}
