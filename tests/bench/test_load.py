"""The bench of sustained load, for seconds instead of minutes: it finds a capacity, keeps to it, and judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.load.__main__ import Plan, measure

TINY = Plan(
    minutes=2,
    warm_up_seconds=0.2,
    share=0.2,
    settle_seconds=0.5,
    calibrate_seconds=1,
    minute_seconds=1,
    samples_a_minute=2,
    ahead=50,
)


@pytest.mark.timeout(300)
async def test_the_bench_of_load_runs_and_judges(bench_folder: Path) -> None:
    figures = await measure(bench_folder, TINY)
    assert figures["capacity_per_second"] > 0
    assert len(figures["minutes"]) == TINY.minutes
    assert len(figures["samples"]) == 1 + TINY.minutes * TINY.samples_a_minute
    assert figures["minutes"][-1]["ended_per_second"] > 0
    assert figures["growth"]["memory of server, MB"]["last"] > 0
    assert figures["growth"]["memory of worker, MB"]["last"] > 0
