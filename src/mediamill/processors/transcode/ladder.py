"""The ladder: which qualities a video gets, at which size, and how many bits they may take. Pure.

A quality is named by the short side of the picture as seen, so that 1080 × 1920 is 1080p, too. No rung has more pixels
than the source. A source a little too small for a name (1920 × 1072) has that name at its own size, and so has
whatever is too small for any name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIDES = {"2160p": 2160, "1440p": 1440, "1080p": 1080, "720p": 720, "480p": 480, "360p": 360}
QUALITIES = tuple(SIDES)  # highest first
LOWEST = QUALITIES[-1]

NEARLY = 0.95  # of a side counts as that side: films are cut to 1920 × 1040, cameras to 1438 × 1078
LONGEST_SIDE = 4096  # decoders in phones and browsers take no longer H.264 pictures
LEAST_SIDE = 2  # 4:2:0 has one colour for two by two pixels

# Quality, and bits a second at most for 16:9 at up to 30 frames a second: each step is about 1.8 times the one below.
CRF = {"2160p": 23, "1440p": 22, "1080p": 22, "720p": 22, "480p": 22, "360p": 23}
MAX_RATES = {
    "2160p": 18_000_000,
    "1440p": 10_000_000,
    "1080p": 5_500_000,
    "720p": 3_000_000,
    "480p": 1_600_000,
    "360p": 900_000,
}
MANY_FRAMES = 49.5  # a second: 50 and 59.94 count, 48 does not
MANY_FRAMES_RATE = 1.5  # twice the frames are not twice the bits: neighbours are more alike
LEAST_SHARE, MOST_SHARE = 0.5, 2.0  # of the rate, for pictures with fewer or more pixels than 16:9


@dataclass(frozen=True, slots=True)
class Rung:
    """One quality as it is encoded."""

    name: str
    width: int
    height: int
    crf: int
    max_rate: int  # bits/s


def rungs_for(
    width: int, height: int, frame_rate: float, wanted: Sequence[str] | None = None
) -> tuple[Rung, ...]:
    """The rungs for a picture of this size as seen (upright, square pixels), highest first; perhaps none."""
    names = [name for name in QUALITIES if wanted is None or name in wanted]
    sizes = {name: size for name in names if (size := _size_of(name, width, height)) is not None}
    return tuple(_rung(name, size, frame_rate) for name, size in sizes.items())


def wanted_but_above(width: int, height: int, wanted: Sequence[str] | None = None) -> Mapping[str, str]:
    """The qualities (of those wanted) that this source does not get, each with the reason."""
    reasons: dict[str, str] = {}
    for name in QUALITIES if wanted is None else dict.fromkeys(wanted):
        if name not in SIDES:
            reasons[name] = f"there is no such quality; there are {', '.join(QUALITIES)}"
        elif min(width, height) < SIDES[name] * NEARLY and name != LOWEST:
            reasons[name] = f"the source has {width} × {height} pixels, which is less"
        elif _size_of(name, width, height) is None:
            reasons[name] = f"it would have a side of more than {LONGEST_SIDE} pixels"
    return reasons


def _size_of(name: str, width: int, height: int) -> tuple[int, int] | None:
    """The size of a quality, or None if the source does not get it."""
    short, long = sorted((max(1, width), max(1, height)))
    if short < SIDES[name] * NEARLY and name != LOWEST:
        return None
    scale = min(1.0, SIDES[name] / short)
    if long * scale > LONGEST_SIDE:
        if name != LOWEST:
            return None
        scale = LONGEST_SIDE / long  # a panorama: there must be one rung
    return _even(width, scale), _even(height, scale)


def _even(side: int, scale: float) -> int:
    """The nearest even number that is not above the source."""
    return max(LEAST_SIDE, min(round(side * scale / 2) * 2, side // 2 * 2))


def _rung(name: str, size: tuple[int, int], frame_rate: float) -> Rung:
    usual = SIDES[name] * SIDES[name] * 16 / 9
    share = max(LEAST_SHARE, min(size[0] * size[1] / usual, MOST_SHARE))
    many = MANY_FRAMES_RATE if frame_rate >= MANY_FRAMES else 1.0
    return Rung(name, *size, CRF[name], round(MAX_RATES[name] * share * many))
