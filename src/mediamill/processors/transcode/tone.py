"""HDR (PQ or HLG) and other BT.2020 pictures as SDR in BT.709: the maths, and a table (.cube) of it for libavfilter.

1. signal to light: PQ by SMPTE ST 2084; HLG by ARIB STD-B67 with the system gamma 1.2 of a 1000-nit display;
   BT.2020 without HDR by BT.1886.
2. BT.2020 to BT.709 by the matrix. Colours outside are pressed softly towards the neutral axis, channel by channel,
   as far from it as they are; colours well inside stay as they are, greys exactly.
3. the brightest channel of each pixel goes through the curve of BT.2390 (EETF), from a peak of 1000 nits to SDR white
   at 203 nits (BT.2408); the others follow in proportion, which keeps the hue. Up to 90 nits nothing changes.
4. light to signal by BT.1886 (gamma 2.4, black is 0).

Approximations: the peak is always taken as 1000 nits, so what is brighter is clipped and dimmer masters are a little
darker than need be; no scene-by-scene metadata (HDR10+, Dolby Vision) is used; a table of 33 points is interpolated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Tone = Literal["pq", "hlg", "wide"]  # "wide": the colours of BT.2020, but not HDR
Colours = NDArray[np.float64]  # … × 3, RGB
Numbers = NDArray[np.float64]

PQ_TRANSFER, HLG_TRANSFER = 16, 18  # ISO/IEC 23091-2, as in AVColorTransferCharacteristic
BT2020_PRIMARIES = 9
POINTS = 33
WHITE_NITS = 203.0
PEAK_NITS = 1000.0

M1, M2 = 2610 / 16384, 2523 / 4096 * 128
C1, C2, C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
HLG_A, HLG_B, HLG_C = 0.17883277, 0.28466892, 0.55991073
HLG_GAMMA = 1.2
GAMMA = 2.4
LUMA_2020 = np.array([0.2627, 0.6780, 0.0593])
TO_709 = np.array(
    [[1.660491, -0.587641, -0.072850], [-0.124550, 1.132900, -0.008349], [-0.018151, -0.100579, 1.118730]]
)
PRESSED_FROM = 0.8  # share of the way from the neutral axis to the edge of BT.709 that stays as it is


def tone_of(transfer: int | None, primaries: int | None = None) -> Tone | None:
    """What must be done to a picture with these tags; None: nothing."""
    if transfer == PQ_TRANSFER:
        return "pq"
    if transfer == HLG_TRANSFER:
        return "hlg"
    return "wide" if primaries == BT2020_PRIMARIES else None


def tone_steps(table: Path) -> list[tuple[str, dict[str, str]]]:
    """Filters, with options for `Graph.add(name, **options)`, from any pixel format to 8-bit 4:2:0 in BT.709.

    `table`: where `write_table` has put it. Cheapest behind the scaler to the highest rung, where frames are smallest.
    """
    tags = {"color_primaries": "bt709", "color_trc": "bt709"}
    return [
        ("scale", {"in_color_matrix": "bt2020"}),
        ("format", {"pix_fmts": "gbrp10le"}),
        ("lut3d", {"file": str(table), "interp": "tetrahedral"}),
        ("setparams", tags),
        ("scale", {"out_color_matrix": "bt709", "out_range": "tv"}),
        ("format", {"pix_fmts": "yuv420p"}),
        ("setparams", {**tags, "colorspace": "bt709", "range": "tv"}),
    ]


def write_table(tone: Tone, path: Path) -> Path:
    """The table for the `lut3d` filter."""
    axis = np.linspace(0.0, 1.0, POINTS)
    grid = np.meshgrid(axis, axis, axis, indexing="ij")
    colours = to_sdr(np.stack(grid[::-1], axis=-1).reshape(-1, 3), tone)  # red runs fastest
    rows = "\n".join(f"{red:.6f} {green:.6f} {blue:.6f}" for red, green, blue in colours.tolist())
    path.write_text(f"LUT_3D_SIZE {POINTS}\n{rows}\n", "ascii")
    return path


def to_sdr(signal: Colours, tone: Tone) -> Colours:
    """Signal (0 to 1, full range RGB of BT.2020) to signal of BT.709."""
    light = to_light(np.clip(signal, 0.0, 1.0), tone) / WHITE_NITS
    inside = press_into_709(light @ TO_709.T)
    brightest = inside.max(axis=-1, keepdims=True)
    curved = bt2390(brightest * WHITE_NITS) / WHITE_NITS if tone != "wide" else np.minimum(brightest, 1.0)
    scale = np.divide(curved, brightest, out=np.zeros_like(brightest), where=brightest > 0)
    shown: Colours = np.clip(inside * scale, 0.0, 1.0) ** (1 / GAMMA)
    return shown


def to_light(signal: Colours, tone: Tone) -> Colours:
    """Signal to nits on the display, per channel."""
    if tone == "pq":
        return pq_to_nits(signal)
    if tone == "wide":
        return np.asarray(WHITE_NITS * signal**GAMMA)
    scene = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - HLG_C) / HLG_A) + HLG_B) / 12)
    luminance = (scene @ LUMA_2020)[..., None]
    return np.asarray(PEAK_NITS * luminance ** (HLG_GAMMA - 1) * scene)


def pq_to_nits(signal: Numbers) -> Numbers:
    """The EOTF of ST 2084."""
    root = np.clip(signal, 0.0, 1.0) ** (1 / M2)
    return np.asarray(10_000 * (np.maximum(root - C1, 0) / (C2 - C3 * root)) ** (1 / M1))


def nits_to_pq(nits: Numbers) -> Numbers:
    """Its inverse."""
    power = (np.clip(nits, 0.0, 10_000) / 10_000) ** M1
    return np.asarray(((C1 + C2 * power) / (1 + C3 * power)) ** M2)


def bt2390(nits: Numbers) -> Numbers:
    """The curve of BT.2390 from the source's peak to SDR white: straight at first, then a spline that ends flat."""
    top = nits_to_pq(np.array(PEAK_NITS))
    level = np.minimum(nits_to_pq(nits) / top, 1.0)
    end = nits_to_pq(np.array(WHITE_NITS)) / top
    knee = 1.5 * end - 0.5
    t = np.clip((level - knee) / (1 - knee), 0.0, 1.0)
    spline = (
        (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (-2 * t**3 + 3 * t**2) * end
    )
    return pq_to_nits(np.where(level < knee, level, spline) * top)


def press_into_709(light: Colours) -> Colours:
    """No channel below 0: far from the neutral axis, colours are pressed so that the edges of BT.2020 come inside."""
    brightest = light.max(axis=-1, keepdims=True)
    away = np.divide(brightest - light, brightest, out=np.zeros_like(light), where=brightest > 0)
    over = np.maximum(away - PRESSED_FROM, 0.0)
    farthest = FARTHEST - PRESSED_FROM
    room = 1 - PRESSED_FROM
    bend = farthest * room / (farthest - room)
    return np.asarray(brightest * (1 - np.where(over > 0, PRESSED_FROM + over / (1 + over / bend), away)))


def _farthest() -> Colours:
    """How far from the neutral axis each channel of BT.709 gets, over the edges of BT.2020."""
    share = np.linspace(0.0, 1.0, 1001)[:, None]
    corners = np.eye(3)
    edges = [share * corners[one] + (1 - share) * corners[other] for one, other in ((0, 1), (1, 2), (2, 0))]
    light = np.concatenate(edges) @ TO_709.T
    brightest = light.max(axis=-1, keepdims=True)
    return np.asarray(((brightest - light) / brightest).max(axis=0))


FARTHEST = _farthest()
