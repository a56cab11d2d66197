"""Small stand-ins of an image: a WebP of at most 768 pixels, and made from that a JPEG of at most 320.

The source is opened and decoded once, as far reduced as its decoder can; nothing is ever enlarged.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pyvips

from mediamill.media.images import WHITE, ImageFacts, Picture, fit, read_picture
from mediamill.media.source_file import Source

PREVIEW_SIDE, PREVIEW_FILE = 768, "preview.webp"
THUMBNAIL_SIDE, THUMBNAIL_FILE = 320, "thumbnail.jpg"
QUALITY = 80
WEBP_EFFORT = 2  # of 6: beyond it the files get hardly smaller


@dataclass(frozen=True, slots=True)
class Proxies:
    """File names relative to the folder; width and height of the preview, and facts about the source."""

    preview: str
    thumbnail: str
    width: int
    height: int
    source: ImageFacts
    digest: str  # SHA-256 of the preview


def make_proxies(source: Source, mime_type: str, folder: Path, *, ignore_previews: bool = False) -> Proxies:
    """Read the source once and write both files. `ignore_previews`: develop raw photos."""
    picture = read_picture(source, mime_type, PREVIEW_SIDE, ignore_previews=ignore_previews)
    return write_proxies(picture, folder)


def write_proxies(picture: Picture, folder: Path) -> Proxies:
    """Both files from an image that is in memory."""
    preview = fit(picture.image, PREVIEW_SIDE).copy_memory()
    webp = write_files(preview, folder)
    digest = sha256(webp).hexdigest()
    return Proxies(PREVIEW_FILE, THUMBNAIL_FILE, preview.width, preview.height, picture.facts, digest)


def write_files(preview: pyvips.Image, folder: Path) -> bytes:
    """Both files from an image that has the size of the preview; the bytes of the preview."""
    webp: bytes = preview.webpsave_buffer(Q=QUALITY, effort=WEBP_EFFORT, keep="none")
    (folder / PREVIEW_FILE).write_bytes(webp)
    thumbnail = fit(preview, THUMBNAIL_SIDE)
    if thumbnail.hasalpha():  # JPEG has none
        thumbnail = thumbnail.flatten(background=WHITE)
    (folder / THUMBNAIL_FILE).write_bytes(thumbnail.jpegsave_buffer(Q=QUALITY, keep="none"))
    return webp
