"""The bench of messages with images, with tiny images: ours and the peer are measured with every body."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import inputs

IMAGE_BYTES = 2_000


@pytest.mark.timeout(300)
def test_every_body_is_measured(bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "SETTLE_SECONDS", 0)
    bodies = inputs.make_bodies(bench_folder, IMAGE_BYTES)
    assert inputs.measure_reading(bench_folder, bodies["10 images"][0]) >= 0
    rows = [*inputs.measure_ours(bench_folder, bodies), *inputs.measure_peer(bench_folder, bodies)]
    ours = ["10 images", "1 image", "10 images, form"]
    assert [row["body"] for row in rows if row["server"] == "mediamill"] == ours
    assert [row["body"] for row in rows if row["server"] != "mediamill"] == ours[:2]
    assert all(row["seconds"] > 0 and row["before_mb"] > 0 for row in rows)
