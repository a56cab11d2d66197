"""What runs on the machines: real processes, killed with -9, paused, and started again as an init system would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil


class Node(Protocol):
    """Something that can be killed, paused and started."""

    name: str

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def go_on(self) -> None: ...
    def has_ended(self) -> bool: ...


class ProcessNode:
    """One command, with all that it starts."""

    def __init__(self, name: str, words: Sequence[str], environment: dict[str, str], said: Path) -> None:
        self.name, self._words, self._environment, self.said = name, list(words), environment, said
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Again, if it was killed."""
        with self.said.open("ab") as said:
            self._process = subprocess.Popen(
                self._words,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def kill(self) -> None:
        """-9, to all of it at once, as when the power goes."""
        process, self._process = self._process, None  # nobody shall think that it ended by itself
        if process is not None:
            _signal_all(process.pid, signal.SIGKILL)
            process.wait()

    def pause(self) -> None:
        """Nothing of it runs, and nobody is told; its connections stay."""
        if self._process is not None:
            _signal_all(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """As if nothing had been."""
        if self._process is not None:
            _signal_all(self._process.pid, signal.SIGCONT)

    def has_ended(self) -> bool:
        """By itself, which it should not."""
        return self._process is not None and self._process.poll() is not None


def _signal_all(pid: int, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def mill_command(inside: Sequence[str], *words: str) -> list[str]:
    """The command `mediamill` on a machine."""
    return [*inside, sys.executable, "-m", "mediamill", *words]


def clean_environment(**settings: str) -> dict[str, str]:
    """Ours, but for settings of mediamill; then these."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("MEDIAMILL_")}
    return {
        **ours,
        "NO_COLOR": "1",
        **{f"MEDIAMILL_{name.upper()}": value for name, value in settings.items()},
    }
