"""The few colours that make up most of an image, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mediamill.media.images import Pixels

CLUSTERS, ROUNDS, SAMPLES = 6, 8, 4096
LEAST_SHARE = 0.1  # of the pixels
MOST_COLOURS = 4

NAMES = {
    "black": (12, 12, 12), "dark grey": (70, 70, 70), "grey": (128, 128, 128), "light grey": (195, 195, 195),
    "white": (248, 248, 248), "red": (210, 30, 35), "dark red": (115, 20, 25), "orange": (240, 135, 30),
    "brown": (115, 70, 35), "beige": (222, 200, 165), "yellow": (245, 215, 40), "olive": (115, 115, 40),
    "green": (45, 155, 55), "dark green": (20, 75, 35), "light green": (150, 215, 130), "turquoise": (50, 190, 180),
    "light blue": (140, 190, 235), "blue": (35, 90, 205), "dark blue": (20, 35, 95), "purple": (120, 45, 150),
    "pink": (240, 130, 175), "skin tone": (215, 160, 130),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour and its share of the image (0 to 1)."""

    name: str
    hex: str
    share: float


Points = NDArray[np.float32]


def dominant_colours(pixels: Pixels) -> list[Colour]:
    """The largest first; shades with the same name are one colour."""
    samples = _samples(pixels)
    points = _to_lab(samples)
    belongs = _cluster(points)
    found: dict[str, list[tuple[int, Points]]] = {}
    for cluster in np.unique(belongs):
        members = samples[belongs == cluster]
        centre = members.mean(axis=0)
        found.setdefault(_name(centre), []).append((len(members), centre))
    colours = [_colour(name, shades, len(samples)) for name, shades in found.items()]
    colours.sort(key=lambda colour: (-colour.share, colour.name))
    return [colour for colour in colours if colour.share >= LEAST_SHARE][:MOST_COLOURS]


def _samples(pixels: Pixels) -> Points:
    """Every so many-th pixel, the same for the same image; an odd step, or columns would be left out."""
    flat = pixels.reshape(-1, 3)
    return flat[:: len(flat) // SAMPLES | 1].astype(np.float32)


def _cluster(points: Points) -> NDArray[np.intp]:
    """k-means; each start is the point farthest from those before it, so that small strong colours count."""
    centres = [points.mean(axis=0)]
    for _ in range(CLUSTERS - 1):
        away = np.min([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
        centres.append(points[int(away.argmax())])
    middle = np.array(centres)
    belongs: NDArray[np.intp] = np.zeros(len(points), np.intp)
    for _ in range(ROUNDS):
        belongs = ((points[:, None] - middle[None]) ** 2).sum(axis=2).argmin(axis=1)
        for cluster in range(CLUSTERS):
            if (members := belongs == cluster).any():
                middle[cluster] = points[members].mean(axis=0)
    return belongs


def _to_lab(rgb: Points) -> Points:
    """CIE Lab, where distances are about those that eyes see."""
    linear = np.where(rgb > 10.31, ((rgb / 255 + 0.055) / 1.055) ** 2.4, rgb / 255 / 12.92)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = linear @ to_xyz.T / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1).astype(np.float32)


_NAMED = _to_lab(np.array(list(NAMES.values()), dtype=np.float32))


def _name(rgb: Points) -> str:
    distances = ((_NAMED - _to_lab(rgb[None])) ** 2).sum(axis=1)
    return list(NAMES)[int(distances.argmin())]


def _colour(name: str, shades: list[tuple[int, Points]], total: int) -> Colour:
    rgb = max(shades, key=lambda shade: shade[0])[1]
    share = sum(shade[0] for shade in shades) / total
    return Colour(name, "#" + "".join(f"{round(float(value)):02x}" for value in rgb), round(share, 3))
