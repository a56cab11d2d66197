"""The bench of media, with tiny files and without the peers of the scan: every part runs and gives its figures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.media import photos
from bench.media.__main__ import PARTS, Sizes
from bench.media.memory import measure_photo, measure_sound
from bench.media.warm import SAMPLES

TINY = Sizes(
    photos=1,
    scan_seconds=5,
    scan_rounds=1,
    scan_peers=(),
    processors=("sticker",),
    jobs=3,
    large_bytes=4_000_000,
    megapixels=4,
)


@pytest.fixture
def found(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, object]:
    monkeypatch.setattr(photos, "SIZES", {12: (800, 600)})
    return PARTS[request.param](tmp_path, 1, TINY)


@pytest.mark.parametrize("found", ["cascade"], indirect=True)
def test_stand_ins_are_measured(found: dict[str, dict[str, float]]) -> None:
    assert found["ratios"]["cascade_vs_pillow_cpu"] > 0
    assert found["ratios"]["cascade_vs_best_vips_cpu"] > 0


@pytest.mark.parametrize("found", ["scene_scan"], indirect=True)
def test_our_scan_is_measured(found: dict[str, dict[str, float]]) -> None:
    assert found["missing"] == {}
    assert found["frames"] == {"mediamill": 150}
    assert found["frames_per_cpu_second"]["mediamill"] > 0


@pytest.mark.parametrize("found", ["warm"], indirect=True)
def test_a_warm_child_is_measured(found: dict[str, dict[str, dict[str, float]]]) -> None:
    assert found["noop_ms"]["p50"] > 0  # type: ignore[operator]
    assert found["tiny_image"]["in_child_ms"]["p50"] > 0
    assert found["processors"]["sticker"]["second_job_seconds"] > 0


def test_memory_of_a_large_photo_and_of_long_sound_is_measured(tmp_path: Path) -> None:
    """Videos take the same way, and much longer: they are left out here."""
    found = asyncio.run(measure_photo(tmp_path, SAMPLES / "photo.jpg", TINY.megapixels))
    found["audio"] = asyncio.run(measure_sound(tmp_path, TINY.large_bytes))
    assert found.keys() == {"photo_proxies", "photo_processor", "audio"}
    assert all(each["peak_mb"] > 0 and each["cpu_seconds"] > 0 for each in found.values())
