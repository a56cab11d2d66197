"""Runs docs/tutorial.md as a reader would: its commands in one shell, against a server started as `make up` starts it.

The convention, which the page repeats in a comment: a fenced block counts if an HTML comment stands right above it.
`<!-- run -->`: each `$ ` line is run, and the lines after it must appear in its output (… stands for anything).
`<!-- run instead: COMMAND -->`: COMMAND is run in its place. `<!-- file: PATH -->`: the block is written there.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(
    r"^<!-- (?P<verb>run instead|run|file)(?:: (?P<what>.+?))? -->\n```\w+\n(?P<body>.*?)^```$", re.M | re.S
)
LIMIT_SECONDS = 180
LIST = re.compile(r"mediamill \w+ list\b")


@dataclass(frozen=True)
class Step:
    """A command and the lines it must print, or a file to write."""

    command: str = ""
    expected: tuple[str, ...] = ()
    path: str = ""
    text: str = ""


def read_steps(page: str) -> list[Step]:
    """What the page asks for, in its order."""
    steps: list[Step] = []
    for block in BLOCK.finditer(page):
        verb, what, body = block["verb"], block["what"], block["body"]
        if verb == "file":
            steps.append(Step(path=what, text=body))
        elif verb == "run instead":
            steps.append(Step(what))
        else:
            steps += [_read_command(part) for part in re.split(r"^\$ ", body, flags=re.M)[1:]]
    return steps


def _read_command(part: str) -> Step:
    command, *expected = part.strip("\n").split("\n")
    return Step(command, tuple(line.strip() for line in expected if line.strip()))


def shows(output: str, line: str) -> bool:
    """Whether the line is there; how wide a table's columns are does not matter."""
    wanted = r".*".join(re.escape(part.strip()) for part in line.split("…"))
    return re.search(re.sub(r"(\\ )+", r"\\s+", wanted), output) is not None


class Shell:
    """One bash for the whole page, so that exports and variables last."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[str, int]:
        """What it prints, and its exit code."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{{ {command}\n}} </dev/null; code=$?; echo; echo END-OF-STEP $code\n")
        stdin.flush()
        lines: list[str] = []
        for line in stdout:
            if line.startswith("END-OF-STEP "):
                return "".join(lines), int(line.split()[1])
            lines.append(line)
        raise AssertionError(f"the shell ended during: {command}\n{''.join(lines)}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def _wait_for_health(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            answer = httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
            if answer.status_code == 200 and answer.json()["active_workers"] > 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server did not come up")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A folder that looks like a clone in which `make up` runs, and a second terminal in it."""
    clone, plugins = tmp_path / "clone", tmp_path / "plugins"
    clone.mkdir()
    plugins.mkdir()
    (clone / "samples").symlink_to(ROOT / "samples")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAMILL_")}
    port = free_port()
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(plugins),
        "PLUGINS": str(plugins),
        "MEDIAMILL_PORT": str(port),
        "COLUMNS": "200",
    }
    with (tmp_path / "up.log").open("wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "mediamill", "up"],
            cwd=clone,
            env={**environment, "MEDIAMILL_DATA": "./data"},
            stdout=log,
            stderr=log,
        )
    terminal = Shell(clone, environment)
    try:
        _wait_for_health(up, port)
        yield terminal
    finally:
        terminal.close()
        up.send_signal(signal.SIGTERM)
        try:
            up.wait(60)
        except subprocess.TimeoutExpired:
            up.kill()
        print((tmp_path / "up.log").read_text())


def test_the_tutorial_does_what_it_says(shell: Shell, tmp_path: Path) -> None:
    steps = read_steps(TUTORIAL.read_text())
    assert len(steps) > 10
    for step in steps:
        if step.path:
            (tmp_path / "clone" / step.path).resolve().write_text(step.text)
            continue
        output, code = _run_step(shell, step)
        missing = [line for line in step.expected if not shows(output, line)]
        assert (code, missing) == (0, []), f"$ {step.command}\n{output}"


def _run_step(shell: Shell, step: Step) -> tuple[str, int]:
    """A list is asked for again until it shows what comes: on a busy machine a job starts a moment later."""
    until = time.monotonic() + LIMIT_SECONDS
    while True:
        output, code = shell.run(step.command)
        if not LIST.match(step.command) or time.monotonic() > until:
            return output, code
        if all(shows(output, line) for line in step.expected):
            return output, code


def test_a_line_that_is_not_printed_is_noticed() -> None:
    page = "<!-- run -->\n```console\n$ echo one\none\n$ echo two  three\ntwo … four\n```\n"
    first, second = read_steps(page)
    assert shows("one\n", first.expected[0])
    assert not shows("two  three\n", second.expected[0])
    assert shows("two   three  four\n", second.expected[0])
