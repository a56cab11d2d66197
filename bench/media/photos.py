"""Photographs that nobody took: light and texture of every size, things with edges, blur behind them, grain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

SIZES = {12: (4032, 3024), 24: (6000, 4000)}  # by megapixels
QUALITY = 92
THINGS = 60


def make_photos(folder: Path, count: int) -> list[Path]:
    """Half of them with 12, half with 24 megapixels; the same ones every time."""
    made = []
    for number in range(count):
        megapixels = (12, 24)[number % 2]
        path = folder / f"photo-{number}-{megapixels}mp.jpg"
        picture = make_photo(*SIZES[megapixels], np.random.default_rng(number))
        cv2.imwrite(str(path), picture, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        made.append(path)
    return made


def make_photo(width: int, height: int, random: np.random.Generator) -> Any:
    """Pixels, 8 bits each of three."""
    picture = _texture(width, height, random)
    _put_things(picture, random)
    near = int(height * random.uniform(0.4, 0.7))  # above it all is out of focus
    picture[:near] = cv2.blur(picture[:near], (31, 31))
    grain = random.normal(0, 8, (512, 512, 3)).astype(np.int8)
    rows, columns = -(-height // 512), -(-width // 512)
    return cv2.add(picture, np.tile(grain, (rows, columns, 1))[:height, :width], dtype=cv2.CV_8U)


def _texture(width: int, height: int, random: np.random.Generator) -> Any:
    total = np.zeros((height, width, 3), np.float32)
    for octave in range(1, 11):
        grid = random.random((2**octave * height // width + 1, 2**octave, 3)).astype(np.float32)
        grid[..., 1:] = 0.7 * grid[..., :1] + 0.3 * grid[..., 1:]  # the world is greyer than noise
        total += cv2.resize(grid, (width, height), interpolation=cv2.INTER_LINEAR) * 0.72**octave
    low, high = float(total.min()), float(total.max())
    return cv2.convertScaleAbs(total, alpha=245 / (high - low), beta=-low * 245 / (high - low))


def _put_things(picture: Any, random: np.random.Generator) -> None:
    """Ellipses, boxes and lines of writing."""
    height, width = picture.shape[:2]
    for number in range(THINGS):
        colour = tuple(int(one) for one in random.integers(0, 255, 3))
        x, y = int(random.integers(0, width)), int(random.integers(0, height))
        size = int(random.integers(40, 500))
        if number % 3 == 0:
            cv2.ellipse(picture, (x, y), (size, size // 2), number * 7, 0, 360, colour, -1, cv2.LINE_AA)
        elif number % 3 == 1:
            cv2.rectangle(picture, (x, y), (x + size, y + size // 2), colour, 6)
        else:
            cv2.putText(picture, "a sign to read", (x, y), cv2.FONT_HERSHEY_DUPLEX, 3, colour, 5, cv2.LINE_AA)
