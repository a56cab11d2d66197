"""The bench that runs the suite in a row, with a suite that takes no time."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from bench.suite import busy_processes, run_once

SUITE = """
print("FAILED tests/shop/test_till.py::test_change - AssertionError")
print("=== 1 failed, 12 passed, 2 skipped, 1 warning in 90.50s (0:01:30) ===")
raise SystemExit(1)
"""


def test_a_run_is_recorded_with_its_load_its_figures_and_what_failed(tmp_path: Path) -> None:
    run = run_once((sys.executable, "-c", SUITE), load=1, logs=tmp_path)
    assert (run["load"], run["exit_code"], run["test_minutes"]) == (1, 1, 1.5)
    assert (run["passed"], run["failed"], run["skipped"]) == (12, 1, 2)
    assert run["failures"] == ["tests/shop/test_till.py::test_change"]


def test_busy_processes_are_there_during_the_run_and_gone_after_it() -> None:
    def busy() -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if "while True: pass" in one.cmdline()]

    with busy_processes(2):
        assert len(busy()) == 2
    assert busy() == []
