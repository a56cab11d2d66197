"""`mediamill jobs watch`, drawn once: what is waited for stands above the jobs."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from mediamill.cli.watch import _draw


@pytest.mark.spec("C31")
def test_a_model_server_that_is_waited_for_is_named_above_the_jobs() -> None:
    figures: dict[str, Any] = {
        "states": {"scheduled": 1},
        "dead": 0,
        "waits": [{"server": "gpu:4000", "jobs": 1}],
    }
    screen = io.StringIO()
    Console(file=screen, width=100).print(_draw(figures, []))
    lines = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert "Waiting for the model server at gpu:4000: 1 job" in lines
