"""The bench of drivers, at a tiny size: every statement runs with each driver that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.driver import DRIVERS, OURS, Sizes, measure_drivers

TINY = Sizes(batch=5, batched=10, single=3)
NAMES = list(DRIVERS) if find_spec("psycopg") else [OURS]


@pytest.mark.timeout(300)
def test_every_statement_is_measured_with_every_driver(bench_folder: Path) -> None:
    found = measure_drivers(bench_folder, 1, NAMES, TINY)
    assert found["figures"].keys() == {"claim 5", "finish 5", "claim 1", "finish 1", "enqueue 1"}
    for drivers in found["figures"].values():
        assert list(drivers) == NAMES
        assert all(figures["jobs_per_second"][0] > 0 for figures in drivers.values())
    assert len(found["ratios"]) == 5 * 2 * (len(NAMES) - 1)
