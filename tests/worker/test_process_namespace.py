"""A child in a namespace of its own: nothing outlives it, and it ends for its worker as it ended inside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import psutil
import pytest

from mediamill.worker.process_namespace import has_namespaces
from tests.worker.harness import as_user, is_running, needs_root, wait_until

pytestmark = [
    pytest.mark.spec("C26"),
    pytest.mark.skipif(sys.platform != "linux" or not has_namespaces(), reason="no PID namespaces here"),
]
CHILD = """
import os, signal, subprocess, sys
from mediamill.worker.process_namespace import enter_namespace

reading, writing = os.pipe()
enter_namespace([reading])
os.write(writing, b"held")  # the end that was kept inside
stray = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(os.getpid(), os.read(reading, 4).decode(), flush=True)
sys.stdin.read()
{end}
"""


def start(end: str = "", **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD.format(end=end)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def below(process: subprocess.Popen[str]) -> list[int]:
    return [each.pid for each in psutil.Process(process.pid).children(recursive=True)]


@pytest.mark.parametrize(("end", "code"), [("", 0), ("os._exit(7)", 7), ("raise SystemExit(3)", 3)])
async def test_a_child_is_the_first_process_and_ends_as_it_ended_with_all_that_it_started(
    end: str, code: int
) -> None:
    with start(end) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "1 held\n"
        inside = below(child)
        assert len(inside) == 2, "the child and its stray"
        child.communicate("")
    assert child.returncode == code
    await wait_until(lambda: not any(map(is_running, inside)), "nothing is left")


async def test_a_signal_that_ends_the_child_is_seen_by_its_worker() -> None:
    with start() as child:
        assert child.stdout is not None
        child.stdout.readline()
        inside = below(child)
        os.kill(inside[0], signal.SIGKILL)
        child.wait(60)
    assert child.returncode == -signal.SIGKILL
    await wait_until(lambda: not any(map(is_running, inside)), "nothing is left")


async def test_a_child_whose_worker_side_is_killed_ends_at_once() -> None:
    with start() as child:
        assert child.stdout is not None
        child.stdout.readline()
        inside = below(child)
        child.kill()
        await wait_until(lambda: not any(map(is_running, inside)), "nothing is left")


@needs_root
def test_an_ordinary_user_gets_a_namespace_where_the_system_gives_one() -> None:
    code = (
        "import os\nfrom mediamill.worker.process_namespace import enter_namespace, has_namespaces\n"
        "print(has_namespaces(), flush=True)\nenter_namespace([])\nprint(os.getpid() == 1, os.getuid(), flush=True)"
    )
    with as_user() as (folder, options):
        environment: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            **options,
        )
    there, inside, user = done.stdout.split()
    assert there == inside, done.stderr
    assert user != "0"
