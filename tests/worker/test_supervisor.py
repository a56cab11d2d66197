"""Whoever keeps workers running: starts them again when they die, and not when they left in good order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mediamill.worker.handover import HANDOVER
from mediamill.worker.supervisor import SUPERVISED, Supervisor
from tests.worker.harness import is_running, wait_until

# A program in the place of Python. It notes how it was started, and lives until a signal or ends with a code.
PROGRAM = """#!{python}
import json, os, signal, sys, time
folder = {folder!r}
number = os.open(folder + "/starts", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
ends = open(folder + "/ends").read().split()
handed = os.pread(int(os.environ["MEDIAMILL_HANDOVER_FD"]), 1 << 20, 0).decode()
def leave(number, _frame):
    os.write(log, json.dumps(["signal", number]).encode() + b"\\n")
    os._exit(0)
log = os.open(folder + "/signals", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for each in (signal.SIGTERM, signal.SIGINT):
    signal.signal(each, leave)
told = dict(pid=os.getpid(), session=os.getsid(0), words=sys.argv[1:], environment=dict(os.environ), handed=handed)
before = open(folder + "/starts").read().count("\\n")
os.write(number, json.dumps(told).encode() + b"\\n")
if before < len(ends) and ends[before] != "-":
    os._exit(int(ends[before]))
while True:
    time.sleep(600)
"""


class Program:
    """How it was started so far."""

    def __init__(self, folder: Path, *ends: str) -> None:
        self.folder, self.path = folder, folder / "program"
        self.path.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
        self.path.chmod(0o755)
        (folder / "ends").write_text(" ".join(ends))

    def starts(self) -> list[dict[str, object]]:
        path = self.folder / "starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def signals(self) -> list[int]:
        path = self.folder / "signals"
        return [json.loads(line)[1] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Program]:
    def make(*ends: str) -> Program:
        made = Program(tmp_path, *ends)
        monkeypatch.setattr(sys, "executable", str(made.path))
        return made

    return make


async def test_each_worker_knows_who_keeps_it_and_gets_its_settings_unseen(
    program: Callable[..., Program],
) -> None:
    made = program()
    given = {
        "MEDIAMILL_DATABASE_URL": "postgresql://a:s3cret@b/c",
        "LC_ALL": "C.UTF-8",
        "PLUGIN_KEY": "s3cret",
    }
    supervisor = Supervisor(2, given, more="plugin_key")
    supervisor.start()
    await wait_until(lambda: len(made.starts()) == 2, "both have started")
    for start in made.starts():
        environment = start["environment"]
        assert isinstance(environment, dict)
        assert start["words"] == ["-m", "mediamill", "worker"]
        assert start["session"] == start["pid"], "a signal to the server's terminal is none to it"
        assert (environment[SUPERVISED], environment["LC_ALL"]) == (str(os.getpid()), "C.UTF-8")
        assert HANDOVER in environment
        assert "s3cret" not in str(environment)
        handed = json.loads(str(start["handed"]))
        assert handed["MEDIAMILL_DATABASE_URL"] == given["MEDIAMILL_DATABASE_URL"]
        assert handed["PLUGIN_KEY"] == "s3cret"
    await supervisor.stop()
    assert made.signals() == [signal.SIGTERM] * 2
    assert len(made.starts()) == 2, "nobody is started again"


async def test_a_worker_that_dies_is_started_again_and_one_that_left_is_not(
    program: Callable[..., Program],
) -> None:
    made = program("3", "-", "0")
    supervisor = Supervisor(1)
    supervisor.start()
    await wait_until(lambda: len(made.starts()) == 2, "it was started again")
    os.kill(int(str(made.starts()[1]["pid"])), signal.SIGKILL)
    await wait_until(lambda: len(made.starts()) == 3, "it was started again")
    await asyncio.wait_for(asyncio.gather(*supervisor._tasks), 60)
    assert len(made.starts()) == 3
    await supervisor.stop()


async def test_a_signal_reaches_every_worker_and_ends_the_pause_before_a_start(
    program: Callable[..., Program],
) -> None:
    made = program("1")
    supervisor = Supervisor(2)
    supervisor.start()
    await wait_until(lambda: len(made.starts()) >= 2, "both have started")
    supervisor.signal(signal.SIGINT)
    await asyncio.wait_for(asyncio.gather(*supervisor._tasks), 60)
    assert set(made.signals()) <= {signal.SIGINT, signal.SIGTERM}
    assert not any(is_running(int(str(start["pid"]))) for start in made.starts())


async def test_a_worker_that_cannot_be_started_is_tried_again(
    program: Callable[..., Program], tmp_path: Path
) -> None:
    made = program("0")
    made.path.rename(tmp_path / "away")
    supervisor = Supervisor(1)
    supervisor.start()
    await asyncio.sleep(0)
    await wait_until(lambda: not supervisor._running, "the first try has failed")
    (tmp_path / "away").rename(made.path)
    await asyncio.wait_for(asyncio.gather(*supervisor._tasks), 60)
    assert len(made.starts()) == 1


WORKER = """
import os, signal, sys, time
from mediamill.worker.supervisor import SUPERVISED, SUPERVISOR_GONE, follow_supervisor
signal.signal(SUPERVISOR_GONE, lambda *_: (os.write(1, b"gone\\n"), os._exit(0)))
os.environ[SUPERVISED] = sys.argv[1] if sys.argv[1] != "parent" else str(os.getppid())
if sys.argv[1] == "none":
    del os.environ[SUPERVISED]
follow_supervisor()
print("follows", flush=True)
time.sleep(600)
"""
SUPERVISOR = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", sys.argv[1], "parent"])
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells")
def test_a_worker_leaves_when_its_supervisor_dies_or_has_died_before() -> None:
    command = [sys.executable, "-c"]
    dead = subprocess.run([*command, WORKER, "1"], capture_output=True, text=True, timeout=60)
    assert dead.stdout == "gone\n", "whoever started it is not the supervisor"
    with subprocess.Popen(
        [*command, SUPERVISOR, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "follows\n"
        supervisor.kill()
        assert supervisor.stdout.readline() == "gone\n"
    with subprocess.Popen([*command, WORKER, "none"], stdout=subprocess.PIPE, text=True) as alone:
        assert alone.stdout is not None
        assert alone.stdout.readline() == "follows\n"
        alone.kill()
