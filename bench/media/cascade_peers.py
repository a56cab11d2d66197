"""One way to make the two stand-ins of photographs: ours, or a peer's. Everyone writes the same two files.

python -m bench.media.cascade_peers NAME FOLDER PHOTO... prints {"cpu_seconds", "peak_mb"} per run: imports and the
first photo (which warms the libraries up) are left out.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.media.meters import cpu_seconds, peak_mb

PREVIEW, PREVIEW_SIDE = "preview.webp", 768
THUMBNAIL, THUMBNAIL_SIDE = "thumbnail.jpg", 320
QUALITY = 80
OUR_EFFORT = 2  # WebP's, 0 to 6; everybody calls it `method` or `effort` and means the same code


def make_ours(path: Path, folder: Path) -> None:
    """What a library's scan and the image processor do."""
    from mediamill.processors.image.proxies import make_proxies

    make_proxies(path, "image/jpeg", folder)


def make_with_pillow(path: Path, folder: Path, *, gap: float, method: int) -> None:
    """`thumbnail` lets the JPEG decoder reduce, down to `gap` times the side that is wanted."""
    from PIL import Image

    with Image.open(path) as image:
        image.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE), Image.Resampling.LANCZOS, reducing_gap=gap)
        image.save(folder / PREVIEW, quality=QUALITY, method=method)
        image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS, reducing_gap=gap)
        image.save(folder / THUMBNAIL, quality=QUALITY)


def make_with_vips(path: Path, folder: Path, *, effort: int, way: str) -> None:
    """`two`: a thumbnail each, so decoded twice. `cascade`: the small from the large. `shrink`: as the latter,
    but the decoder reduces as far as it can, which is more than `thumbnail` asks it to."""
    image = _shrink_with_vips(path) if way == "shrink" else _thumbnail_with_vips(path, PREVIEW_SIDE)
    if way != "two":
        image = image.copy_memory()
    (folder / PREVIEW).write_bytes(image.webpsave_buffer(Q=QUALITY, effort=effort, keep="none"))
    if way == "two":
        small = _thumbnail_with_vips(path, THUMBNAIL_SIDE)
    else:
        small = image.thumbnail_image(THUMBNAIL_SIDE, height=THUMBNAIL_SIDE)
    (folder / THUMBNAIL).write_bytes(small.jpegsave_buffer(Q=QUALITY, keep="none"))


def _thumbnail_with_vips(path: Path, side: int) -> Any:
    import pyvips

    return pyvips.Image.thumbnail(str(path), side, height=side)


def _shrink_with_vips(path: Path) -> Any:
    import pyvips

    header = pyvips.Image.jpegload(str(path), access="sequential")
    side = max(header.width, header.height)
    shrink = max(each for each in (1, 2, 4, 8) if each == 1 or side / each >= PREVIEW_SIDE)
    image = pyvips.Image.jpegload(str(path), shrink=shrink, access="sequential", autorotate=True)
    return image.thumbnail_image(PREVIEW_SIDE, height=PREVIEW_SIDE)


Make = Callable[[Path, Path], None]
OURS = "mediamill"
WAYS: dict[str, Make] = {
    OURS: make_ours,
    "pillow_default": partial(make_with_pillow, gap=2.0, method=4),
    "pillow_draft": partial(make_with_pillow, gap=2.0, method=OUR_EFFORT),
    "pillow_gap1": partial(make_with_pillow, gap=1.0, method=OUR_EFFORT),
    "vips_two": partial(make_with_vips, effort=OUR_EFFORT, way="two"),
    "vips_cascade": partial(make_with_vips, effort=OUR_EFFORT, way="cascade"),
    "vips_shrink": partial(make_with_vips, effort=OUR_EFFORT, way="shrink"),
}
PACKAGES = {
    "mediamill": "mediamill.processors.image.proxies",
    "pillow": "PIL.Image",
    "vips": "pyvips",
}


def run(name: str, folder: Path, photos: list[Path]) -> dict[str, float]:
    """All photos, each into a folder of its own."""
    package = importlib.import_module(PACKAGES[name.partition("_")[0]])
    if name.startswith("vips"):  # as ours does it
        package.concurrency_set(1)
        package.cache_set_max(0)
    make, folders = WAYS[name], [folder / photo.stem for photo in photos]
    for each in folders:
        each.mkdir(parents=True, exist_ok=True)
    make(photos[0], folders[0])
    before = cpu_seconds()
    for photo, each in zip(photos, folders, strict=True):
        make(photo, each)
    return {"cpu_seconds": cpu_seconds() - before, "peak_mb": peak_mb("self")}


if __name__ == "__main__":
    chosen, target, *given = sys.argv[1:]
    print(json.dumps(run(chosen, Path(target), [Path(photo) for photo in given])))
