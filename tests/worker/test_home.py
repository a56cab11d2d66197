"""What a worker says of itself to whoever gives it jobs."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from mediamill.worker import home
from mediamill.worker.home import WorkerPlan, hear_nothing

TOLD: list[tuple[dict[str, Any], list[str], dict[str, Any]]] = [
    ({}, [], {"gpu": False}),
    ({"gpu": True}, [], {"gpu": True}),
    ({"encoders": ("a", "b")}, [], {"gpu": False, "encoders": ["a", "b"]}),
    ({}, ["open"], {"gpu": False, "confinement_gaps": ["open"]}),
]


@pytest.mark.parametrize(("plan", "gaps", "told"), TOLD)
def test_it_says_what_it_can_and_where_its_children_are_not_confined(
    monkeypatch: pytest.MonkeyPatch, plan: dict[str, Any], gaps: list[str], told: dict[str, Any]
) -> None:
    monkeypatch.setattr(home, "find_gaps", lambda: gaps)
    assert WorkerPlan(**plan).capabilities == told


def test_a_worker_without_a_name_is_called_by_its_machine_and_process() -> None:
    assert WorkerPlan().name == f"{socket.gethostname()}-{os.getpid()}"
    hear_nothing("jobs", "audio")
