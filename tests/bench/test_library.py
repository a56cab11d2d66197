"""The bench of libraries, with catalogues of hundreds instead of millions: every part runs and gives its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.library import pipeline
from bench.library.__main__ import PARTS, Ground, Sizes

TINY = Sizes(
    small=500,
    large=1_000,
    small_vectors=20,
    vectors=40,
    rounds=2,
    worked_rounds=1,
    shrink=0.02,
    erasing_seconds=60,
    folders=2,
    images=2,
)


@pytest.mark.timeout(300)
def test_every_part_of_the_library_bench_runs(bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "SIZES", {12: (800, 600), 24: (1200, 800)})
    ground = Ground(bench_folder, TINY)
    found = {name: PARTS[name](ground) for name in PARTS}
    growth = found["growth"]
    assert (growth["small"]["assets"], growth["large"]["assets"]) == (TINY.small, TINY.large)
    assert {told["group"] for told in growth["growth"].values()} == {"claim", "listing", "search"}
    assert all(told["p50"] > 0 for told in growth["growth"].values())
    assert found["delete"]["phases"].keys() >= {"before", "after"}  # erasing so little may be over at once
    assert found["delete"]["assets"] == TINY.large // 2
    assert found["scan"]["figures"]["first"]["files_per_cpu_second"] > 0
    assert found["scan"]["figures"]["again"]["files_per_cpu_second"] > 0
    assert found["pipeline"]["figures"]["images"] == TINY.images
    assert found["pipeline"]["figures"]["share_of_alone"]["cpu"] > 0
