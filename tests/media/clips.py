"""Little videos with known cuts, made for the tests: textures that move, fade, stand still or flicker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import av
import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

WIDTH, HEIGHT, FPS = 192, 108, 12
MARGIN = 96  # how far a texture may be moved


def texture(seed: int, width: int = WIDTH, height: int = HEIGHT) -> Image:
    """A picture with shapes of every size, like a photo's; larger than a frame by the margin."""
    random = np.random.default_rng(seed)
    size = width + MARGIN, height + MARGIN
    total = np.zeros((size[1], size[0], 3), np.float32)
    for octave in range(1, 7):
        grid = random.random((2**octave, 2**octave, 3)).astype(np.float32)
        total += cv2.resize(grid, size, interpolation=cv2.INTER_CUBIC) * 0.7**octave
    total -= total.min()
    return np.asarray(total * (255 / total.max()), np.uint8)


def view(picture: Image, x: float, y: float, width: int = WIDTH, height: int = HEIGHT) -> Image:
    """What a camera sees that was moved by x and y pixels."""
    left, top = int(np.clip(x, 0, MARGIN)), int(np.clip(y, 0, MARGIN))
    return picture[top : top + height, left : left + width]


def still(seed: int, seconds: float) -> Iterator[Image]:
    """The same picture all the time."""
    picture = view(texture(seed), 0, 0)
    for _ in range(round(seconds * FPS)):
        yield picture


def pan(seed: int, seconds: float, pixels_per_second: float = 5.0) -> Iterator[Image]:
    """A camera that moves slowly over a picture."""
    picture = texture(seed)
    for number in range(round(seconds * FPS)):
        moved = number * pixels_per_second / FPS
        yield view(picture, moved, moved / 2)


def dissolve(one: int, other: int, seconds: float) -> Iterator[Image]:
    """One picture fades into another."""
    first, second = view(texture(one), 0, 0), view(texture(other), 0, 0)
    for number in range(steps := round(seconds * FPS)):
        share = (number + 1) / (steps + 1)
        yield cv2.addWeighted(first, 1 - share, second, share, 0).astype(np.uint8)


def noise(seed: int, seconds: float) -> Iterator[Image]:
    """A television without a programme."""
    random = np.random.default_rng(seed)
    for _ in range(round(seconds * FPS)):
        grains = random.integers(0, 256, (HEIGHT // 4, WIDTH // 4), np.uint8)
        gray = cv2.resize(grains, (WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST)
        yield np.repeat(gray[:, :, None], 3, axis=2).astype(np.uint8)


def flash(seed: int, seconds: float, at: float) -> Iterator[Image]:
    """A still picture, white for two frames."""
    for number, picture in enumerate(still(seed, seconds)):
        yield np.full_like(picture, 255) if round(at * FPS) <= number < round(at * FPS) + 2 else picture


def encode(
    path: Path,
    images: Iterable[Image],
    codec: str = "libx264",
    *,
    fps: int = FPS,
    gop: int = 24,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write the images as a video; the name decides the container."""
    fast = {"preset": "ultrafast", "crf": "20"} if codec == "libx264" else {}
    with av.open(str(path), "w") as container:
        stream: av.VideoStream | None = None
        for image in images:
            if stream is None:
                added = container.add_stream(codec, rate=Fraction(fps), options={**fast, **options})
                assert isinstance(added, av.VideoStream)
                stream = added
                stream.height, stream.width = image.shape[:2]
                stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
                stream.codec_context.gop_size = gop
                stream.codec_context.thread_count = 1
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24")))
        assert stream is not None
        container.mux(stream.encode(None))
    return path
