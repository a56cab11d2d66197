"""The bench that runs the suite in a row, with a suite that takes no time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from bench.suite import busy_processes, run_once
from tests.conftest import wait_until

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


async def test_busy_processes_are_there_during_the_run_and_gone_after_it() -> None:
    with busy_processes(3) as session:
        await wait_until(lambda: are_running(session, 3))
    await wait_until(lambda: are_running(session, 0))


async def are_running(session: int | None, count: int) -> bool:
    return sum(_is_in(session, process) for process in psutil.process_iter()) == count


def _is_in(session: int | None, process: psutil.Process) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
