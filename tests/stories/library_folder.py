"""A folder of photos and videos of every sort, mounted read-only where that can be done; and how it is."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import cv2
import numpy as np
import pyvips

from tests.media.clips import Image, encode
from tests.media.making_images import corners, make_dng, make_heic, with_orientation

REAL = Path(__file__).parents[1] / "media"
ORIENTATIONS = range(1, 9)
SAMPLE = Path(__file__).parents[2] / "samples" / "video.mp4"  # it begins with a rocket
PHOTOS = ["cat.jpg", "rocket.jpg", "coffee.jpg"]
SIZE = 640, 360
ODD = ["turned.heic", "raw.dng", "icon.png", "cmyk.jpg", "deep.png", "moving.webp", "moving.gif"]
COUNT = len(ORIENTATIONS) + len(PHOTOS) + len(ODD) + 2
FPS = 12
SCENE_SECONDS = 5.0


def fill(folder: Path) -> None:
    """Three real photos, one picture in eight orientations, one of each odd sort, a film of the photos, and another."""
    odd = folder / "odd ones"
    odd.mkdir(parents=True)
    for name in ("cat.jpg", "coffee.jpg"):
        (folder / name).write_bytes((REAL / name).read_bytes())
    pyvips.Image.new_from_array(_first_frame(SAMPLE)).jpegsave(str(folder / "rocket.jpg"), Q=90)
    for orientation in ORIENTATIONS:
        pixels = _turned_away(corners(96, 64), orientation)
        with_orientation(pixels, orientation).jpegsave(str(folder / f"way-{orientation}.jpg"), Q=95)
    make_heic(odd / "turned.heic", corners(128, 96))
    make_dng(odd / "raw.dng", corners(700, 500), (120, 100, 90))
    plain = pyvips.Image.new_from_array(corners(32, 32))
    plain.pngsave(str(odd / "icon.png"))
    big = pyvips.Image.new_from_array(corners(200, 120))
    big.colourspace("cmyk").jpegsave(str(odd / "cmyk.jpg"))
    (big.cast("ushort") * 257).cast("ushort").copy(interpretation="rgb16").pngsave(str(odd / "deep.png"))
    moving = pyvips.Image.arrayjoin([big, big.invert()], across=1).copy()
    moving.set_type(pyvips.GValue.gint_type, "page-height", big.height)
    moving.webpsave(str(odd / "moving.webp"))
    moving.gifsave(str(odd / "moving.gif"))
    shutil.copyfile(SAMPLE, folder / "launch.mp4")
    encode(folder / "film.mp4", _scenes(folder), fps=FPS)


def _scenes(folder: Path) -> Iterator[Image]:
    """Each of the photos for a while."""
    for name in PHOTOS:
        pixels = pyvips.Image.new_from_file(str(folder / name)).colourspace("srgb").numpy()
        small = cv2.resize(np.ascontiguousarray(pixels), SIZE, interpolation=cv2.INTER_AREA)
        for _ in range(round(SCENE_SECONDS * FPS)):
            yield small.astype(np.uint8)


def _first_frame(path: Path) -> Image:
    with av.open(str(path)) as film:
        return np.asarray(next(film.decode(video=0)).to_ndarray(format="rgb24"), np.uint8)


def _turned_away(upright: Image, orientation: int) -> Image:
    """The pixels that a camera writes which was held so."""
    undone = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright),
        7: np.rot90(upright, 2).transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }
    return np.ascontiguousarray(undone[orientation])


@contextmanager
def mounted_read_only(source: Path, place: Path) -> Iterator[tuple[Path, bool]]:
    """Where to read it, and whether nobody can write there."""
    place.mkdir()
    words = (("mount", "--bind", str(source), str(place)), ("mount", "-o", "remount,ro,bind", str(place)))
    done = 0
    try:
        for command in words:
            if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
                break
            done += 1
        yield (place, True) if done == len(words) else (source, False)
    finally:
        if done:
            subprocess.run(("umount", "-l", str(place)), check=False)


def how_it_is(folder: Path, *, access: bool) -> dict[str, tuple[object, ...]]:
    """Every file and folder: times, size, mode, content. `access`: the time of the last access too."""
    stats = {path: path.lstat() for path in [folder, *sorted(folder.rglob("*"))]}
    return {
        str(path.relative_to(folder)): (
            stat.st_mtime_ns,
            stat.st_ctime_ns,
            stat.st_atime_ns if access else None,
            stat.st_size,
            stat.st_mode,
            _digest(path) if path.is_file() else None,
        )
        for path, stat in stats.items()
    }


def _digest(path: Path) -> str:
    """Without an access that would be seen."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOATIME), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
