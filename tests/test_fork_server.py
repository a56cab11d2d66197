from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fork_server import Forked, fork_server


def start(said: Path, *words: str, **environment: str) -> Forked:
    given = {"PATH": os.environ["PATH"], "NO_COLOR": "1", **environment}
    with said.open("wb") as file:
        return fork_server().start("mediamill", list(words), given, file)


def test_a_forked_command_says_and_ends_as_one_that_a_user_starts(tmp_path: Path) -> None:
    for words, code in ((("version",), 0), (("nonsense",), 2)):
        forked = start(tmp_path / "forked", *words)
        cold = subprocess.run(
            [sys.executable, "-m", "mediamill", *words], capture_output=True, check=False, text=True
        )
        assert forked.wait(60) == cold.returncode == code
        assert (tmp_path / "forked").read_text() == cold.stdout + cold.stderr


def test_it_has_the_environment_that_it_was_given_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_PORT", "nobody's")
    folder = str(tmp_path / "data")
    forked = start(tmp_path / "said", "check", MEDIAMILL_DATA=folder, MEDIAMILL_WORKER_PROCESSES="many")
    assert forked.wait(60) == 1
    said = (tmp_path / "said").read_text()
    assert "MEDIAMILL_WORKER_PROCESSES" in said
    assert "nobody's" not in said


def test_it_is_killed_by_a_signal_and_its_end_is_noticed(tmp_path: Path) -> None:
    forked = start(tmp_path / "said", "jobs", "watch")
    assert os.getsid(forked.pid) == forked.pid
    forked.kill()
    assert forked.wait(60) == -signal.SIGKILL
    assert forked.poll() == -signal.SIGKILL
    forked.kill()  # nobody is hit
