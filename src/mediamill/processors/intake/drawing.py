"""Pictures of pages, for the person who looks where a value stands: WebP files, and a thumbnail of the first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyvips

from mediamill.media.images import WHITE, fit
from mediamill.processors.document.formats import PDF
from mediamill.processors.document.pdf import draw_pages
from mediamill.processors.image.proxies import QUALITY, THUMBNAIL_FILE, THUMBNAIL_SIDE, WEBP_EFFORT
from mediamill.processors.intake.source import Source
from mediamill.processors.intake.source_page import SourcePage

SIDE = 1_400
MOST_PAGES = 30


def draw_source(
    source: Source, path: Path, mime_type: str, folder: Path, wanted: Iterable[int], deadline: float
) -> dict[str, str]:
    """Write the pictures; their names. `wanted`: pages that are drawn before others."""
    if source.picture is not None:
        return _write(source.pages[0], source.picture.image, folder)
    if mime_type != PDF:
        for page in source.pages:
            page.width = page.height = None
        return {}
    files: dict[str, str] = {}
    pages = {page.number: page for page in source.pages}
    for number, pixels in draw_pages(path, _chosen(list(pages), wanted), SIDE):
        if pixels is not None:
            files |= _write(pages[number], pyvips.Image.new_from_array(pixels, interpretation="srgb"), folder)
        if time.monotonic() > deadline:
            break
    for page in source.pages:
        _shrink(page)
    return files


def _chosen(numbers: Sequence[int], wanted: Iterable[int]) -> list[int]:
    """The first page, those with values, then the others in their order."""
    first = [number for number in (1, *wanted) if number in numbers]
    return list(dict.fromkeys([*first, *numbers]))[:MOST_PAGES]


def _write(page: SourcePage, image: pyvips.Image, folder: Path) -> dict[str, str]:
    small = fit(image, SIDE).copy_memory()
    page.image, page.width, page.height = f"page-{page.number:05}.webp", small.width, small.height
    (folder / page.image).write_bytes(small.webpsave_buffer(Q=QUALITY, effort=WEBP_EFFORT, keep="none"))
    if page.number != 1:
        return {page.image: page.image}
    thumbnail = fit(small, THUMBNAIL_SIDE)
    if thumbnail.hasalpha():  # JPEG has none
        thumbnail = thumbnail.flatten(background=WHITE)
    (folder / THUMBNAIL_FILE).write_bytes(thumbnail.jpegsave_buffer(Q=QUALITY, keep="none"))
    return {page.image: page.image, THUMBNAIL_FILE: THUMBNAIL_FILE}


def _shrink(page: SourcePage) -> None:
    """A page that is not drawn has the size that its picture would have."""
    if page.image is None and page.width and page.height:
        scale = SIDE / max(page.width, page.height)
        page.width, page.height = max(1, round(page.width * scale)), max(1, round(page.height * scale))
