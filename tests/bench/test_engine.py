"""The bench of the engine, at a tiny size and without its peers: every phase runs and gives its figures."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from bench.engine import phases
from bench.engine.__main__ import measure_all
from bench.engine.measure import SCRATCH_VARIABLE
from bench.engine.peers import load_peer
from bench.engine.phases import PHASES, Sizes
from bench.engine.servers import running_server

TINY = Sizes(jobs=40, fill=100, samples=3, drain_limit_seconds=60, kill_limit_seconds=0.5)
OURS = ("mediamill", "limit")
# The figure of each phase that is 0 or missing if nothing ran.
FIGURES = {
    "enqueue": "rate",
    "drain1": "jobs",
    "drain2": "jobs",
    "latency": "samples",
    "finished": "jobs",
    "waiting": "jobs",
    "sandbox": "jobs",
    "kill": "in_flight",
    "kill-elsewhere": "in_flight",
    "memory": "empty_mb",
}


@pytest.mark.timeout(300)
def test_every_phase_of_the_engine_bench_runs(bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = bench_folder / "met"  # a short path: sockets are in it
    scratch.mkdir()
    monkeypatch.setenv(SCRATCH_VARIABLE, str(scratch))
    monkeypatch.setattr(phases, "LATENCY_PAUSE_SECONDS", 0)
    options = Namespace(rounds=1, peers=list(OURS), phases=list(PHASES))
    with running_server(bench_folder) as url:
        rows = measure_all(url, options, TINY)
    assert [row["error"] for row in rows if "error" in row] == []
    measured = {(row["peer"], row["phase"]): row[FIGURES[row["phase"]]] for row in rows}
    assert measured.keys() == {(peer, phase) for peer in OURS for phase in load_peer(peer).PHASES}
    assert all(measured.values()), measured
    drained = ("drain1", "drain2", "finished", "sandbox")
    assert {measured["mediamill", phase] for phase in drained} == {TINY.jobs}
