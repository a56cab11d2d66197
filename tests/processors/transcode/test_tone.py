"""HDR to SDR: known values, neutral greys, steady curves, true hues; the table does what the maths says."""

from __future__ import annotations

import colorsys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from mediamill.processors.transcode.tone import (
    Tone,
    nits_to_pq,
    pq_to_nits,
    to_light,
    to_sdr,
    tone_of,
    tone_steps,
    write_table,
)

pytestmark = pytest.mark.spec("V4")

Colours = NDArray[np.float64]
TONES: list[Tone] = ["pq", "hlg", "wide"]


def grey(level: float) -> Colours:
    return np.full(3, level)


def pq(nits: float) -> float:
    return float(nits_to_pq(np.array(nits)))


@pytest.mark.parametrize(
    ("nits", "signal"), [(0, 0.0), (100, 0.5081), (203, 0.5807), (1000, 0.7518), (10_000, 1.0)]
)
def test_pq_is_that_of_the_standard(nits: float, signal: float) -> None:
    assert pq(nits) == pytest.approx(signal, abs=1e-4)
    assert float(pq_to_nits(np.array(signal))) == pytest.approx(nits, rel=2e-3, abs=1e-6)


@pytest.mark.parametrize(("signal", "nits"), [(0.0, 0.0), (0.5, 50.7), (0.75, 203.0), (1.0, 1000.0)])
def test_hlg_is_that_of_the_standard(signal: float, nits: float) -> None:
    assert to_light(grey(signal), "hlg") == pytest.approx(nits, rel=5e-3)


@pytest.mark.parametrize(("tone", "white"), [("pq", 0.5807), ("hlg", 0.75)])
def test_reference_white_lands_near_sdr_white_and_the_peak_on_it(tone: Tone, white: float) -> None:
    assert 0.88 < to_sdr(grey(white), tone)[0] < 0.95
    assert to_sdr(grey(1.0), tone) == pytest.approx(1.0)
    assert to_sdr(grey(0.0), tone) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("tone", "level"), [("pq", pq(26)), ("hlg", 0.38)])
def test_a_grey_card_is_where_sdr_has_it(tone: Tone, level: float) -> None:
    """BT.2408: 26 nits, 38 % in either signal; 18 % of white is a signal of 0.42 to 0.43."""
    assert to_sdr(grey(level), tone)[0] == pytest.approx(0.425, abs=0.005)


@pytest.mark.parametrize("tone", TONES)
def test_greys_stay_grey_and_rise(tone: Tone) -> None:
    shown = to_sdr(np.repeat(np.linspace(0, 1, 1001)[:, None], 3, axis=1), tone)
    assert np.ptp(shown, axis=1).max() < 2e-3
    assert np.diff(shown[:, 1]).min() >= -1e-12
    usual = slice(10, 700)
    assert np.diff(shown[usual, 1]).min() > 0


@pytest.mark.parametrize("tone", TONES)
def test_what_bt709_cannot_show_stays_inside_and_apart(tone: Tone) -> None:
    random = np.random.default_rng(7)
    shown = to_sdr(random.random((20_000, 3)), tone)
    assert shown.min() >= 0
    assert shown.max() <= 1
    mixed = np.stack([np.linspace(0, 1, 50), np.full(50, 0.5), np.full(50, 0.05)], axis=1)
    saturation = np.diff(to_sdr(mixed, tone)[:, 0])
    assert saturation.min() > -1e-9  # more red is never less red


@pytest.mark.parametrize("tone", TONES)
@pytest.mark.parametrize("colour", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1)])
@pytest.mark.parametrize("level", [0.3, 0.58, 1.0])
def test_no_hue_flips(tone: Tone, colour: tuple[int, int, int], level: float) -> None:
    shown = to_sdr(np.array(colour) * level, tone)
    there = colorsys.rgb_to_hsv(*shown)
    turn = abs(there[0] - colorsys.rgb_to_hsv(*map(float, colour))[0])
    assert min(turn, 1 - turn) * 360 < 20
    assert there[1] > 0.6


def test_tags_tell_what_is_to_be_done() -> None:
    assert tone_of(16, 9) == "pq"
    assert tone_of(18, 9) == "hlg"
    assert tone_of(14, 9) == "wide"
    assert tone_of(1, 1) is None
    assert tone_of(2, 2) is None
    assert tone_of(None, None) is None


@pytest.mark.parametrize("tone", TONES)
def test_the_table_does_what_the_maths_says(tone: Tone, tmp_path: Path) -> None:
    table = write_table(tone, tmp_path / "it's a table: [x], y;.cube")
    random = np.random.default_rng(3)
    patches = np.concatenate([random.random((96, 3)), np.repeat(np.linspace(0, 1, 32)[:, None], 3, axis=1)])
    shown = through_filters(patches, table)
    errors = np.abs(shown - to_sdr(patches, tone))
    assert errors.max() < 0.06  # 8 bits and 4:2:0 take as much from the most saturated colours
    assert errors.mean() < 0.01


def through_filters(patches: Colours, table: Path) -> Colours:
    """Patches of 16 × 16 pixels in 10 bits, and what their centres have become."""
    frame = ten_bits(np.repeat(np.repeat(patches[None], 16, axis=0), 16, axis=1))
    graph = Graph()
    last: FilterContext = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 25)
    )
    for name, options in [*tone_steps(table), ("buffersink", {})]:
        last.link_to(after := graph.add(name, **options))
        last = after
    graph.configure()
    graph.push(frame)
    shown = graph.pull()
    assert isinstance(shown, VideoFrame)
    assert (shown.format.name, shown.colorspace, shown.color_trc, shown.color_primaries) == (
        "yuv420p",
        1,
        1,
        1,
    )
    rgb = shown.reformat(format="rgb24", src_colorspace=1, dst_colorspace=1).to_ndarray()
    return np.asarray(rgb[8, 8::16] / 255)


def ten_bits(rgb: Colours) -> VideoFrame:
    """RGB of BT.2020 as limited-range YUV."""
    height, width, _ = rgb.shape
    luma = rgb @ np.array([0.2627, 0.6780, 0.0593])
    blue, red = (rgb[..., 2] - luma) / 1.8814, (rgb[..., 0] - luma) / 1.4746
    frame = av.VideoFrame(width, height, "yuv444p10le")
    for plane, values in zip(frame.planes, (luma * 876 + 64, blue * 896 + 512, red * 896 + 512), strict=True):
        padded = np.zeros((height, plane.line_size // 2), "<u2")
        padded[:, :width] = np.rint(values)
        plane.update(padded.tobytes())
    frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range = 9, 9, 16, 1
    frame.pts, frame.time_base = 0, Fraction(1, 25)
    return frame
