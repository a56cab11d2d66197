"""The command of the chaos run. What it starts is run by tests/machines, in minutes and with network namespaces."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.machines import __main__ as program
from bench.machines.run import Plan


class PlayedRun:
    """It loses as many jobs as it was asked to make faults."""

    def __init__(self, plan: Plan, _folder: Path, _tell: Callable[[str], None]) -> None:
        self.plan, self.is_enough = plan, False

    async def run(self) -> dict[str, Any]:
        clean = dict.fromkeys(("twice", "stuck", "dead", "not_recovered"), 0)
        return {"lost": self.plan.faults, "modes": self.plan.modes, **clean}


@pytest.mark.parametrize(("faults", "code"), [(0, 0), (3, 1)])
def test_the_chaos_run_writes_its_figures_and_fails_if_anything_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: int, code: int
) -> None:
    monkeypatch.setattr(program, "Run", PlayedRun)
    monkeypatch.setattr(program, "why_impossible", lambda: None)
    monkeypatch.setattr(program, "describe_machine", dict)
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench.machines", "--faults", str(faults), "--modes", "redis,hybrid"])
    assert program.main() == code
    told = json.loads((tmp_path / "machines-quick.json").read_text())
    assert (told["lost"], told["modes"], told["seed"]) == (faults, ["redis", "hybrid"], 1)


def test_a_machine_that_cannot_play_several_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "why_impossible", lambda: "no network namespaces here")
    monkeypatch.setattr(sys, "argv", ["bench.machines"])
    assert program.main() == 2
    assert "no network namespaces here" in capsys.readouterr().err
