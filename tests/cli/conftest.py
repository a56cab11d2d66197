"""The command in two ways: as a process of its own, and (quicker) as a call in this one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mediamill.cli.command import run


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Mediamill = Callable[..., Awaitable[Said]]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A data folder that is not made yet; a port that is always free."""
    monkeypatch.delenv("MEDIAMILL_TEST_DATABASE_URL", raising=False)  # `check` knows no such setting
    monkeypatch.setenv("MEDIAMILL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MEDIAMILL_PORT", "0")
    monkeypatch.setenv("NO_COLOR", "1")
    return dict(os.environ)


@pytest.fixture
async def mediamill(
    new_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Mediamill:
    """Runs the command on a fresh database, in a thread: it has its own event loop."""
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", new_url)

    async def call(*words: object) -> Said:
        capsys.readouterr()
        code = await asyncio.to_thread(run, [str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Said(code, out, err)

    return call


def start_process(*words: object, **settings: str) -> subprocess.Popen[str]:
    """The command as a process, as a user starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "mediamill", *map(str, words)],
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_listen_to_ctrl_c,
    )


def _listen_to_ctrl_c() -> None:
    """Whoever runs the tests in the background has told them, and so their children, to ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def finish_process(process: subprocess.Popen[str], limit_seconds: float = 120) -> Said:
    """Wait for its end."""
    out, err = process.communicate(timeout=limit_seconds)
    return Said(process.returncode, out, err)


def run_process(*words: object, **settings: str) -> Said:
    """Start it and wait for its end."""
    return finish_process(start_process(*words, **settings))
