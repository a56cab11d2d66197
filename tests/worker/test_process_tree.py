"""A child process and all that it started: found, measured and killed, whatever it did to hide."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mediamill.worker.process_tree import (
    MARK,
    kill_family,
    kill_marked,
    measure_cpu,
    measure_memory,
    measure_use,
    measure_writes,
)
from tests.worker.harness import is_running, wait_until

pytestmark = [
    pytest.mark.spec("C26"),
    pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc"),
]
MEGABYTE = 1 << 20
MINE = f"{os.getpid()}-{secrets.token_hex(6)}"  # other tests run beside this one
# Prints one line once it has done what is asked; lives until its standard input ends.
PROGRAM = """
import ctypes, os, subprocess, sys, threading, time
ctypes.CDLL(None).prctl(15, b"a) b (c 1")
LINGER = [sys.executable, "-c", "import time; time.sleep(600)"]
{body}
print({said}, flush=True)
sys.stdin.read()
"""


@contextmanager
def started(body: str = "", said: str = "0", mark: str = f"{MINE}.1") -> Iterator[tuple[int, list[int]]]:
    """Its process id, and the numbers that it says."""
    code = PROGRAM.format(body=body, said=said)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, MARK: mark},
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.pid, [int(word) for word in process.stdout.readline().split()]
        finally:
            kill_family(process.pid, mark)


async def test_memory_and_threads_are_those_of_the_child_and_of_its_own_children() -> None:
    body = (
        f"kept = b'x' * {64 * MEGABYTE}\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'kept = b\"y\" * {32 * MEGABYTE}; print(flush=True); "
        "import time; time.sleep(600)'], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()"
    )
    with started(body) as (pid, _):
        own, all_ = measure_use(pid, 500, alone=True), measure_use(pid, 500)
        assert (own.threads, all_.threads) == (4, 5)
        assert 64 * MEGABYTE < own.memory_bytes < 90 * MEGABYTE
        assert own.memory_bytes + 32 * MEGABYTE < all_.memory_bytes < own.memory_bytes + 60 * MEGABYTE
        assert measure_memory(pid) == pytest.approx(all_.memory_bytes, rel=0.05)
        assert 96 * MEGABYTE < measure_memory(pid, exact=True) <= measure_memory(pid)
        assert measure_use(pid, 3).threads == 4, "not counted further than to too many"
        assert measure_use(pid, 4).threads == 5
    assert measure_use(pid, 500) == (0, 0), "it is gone"


async def test_what_is_written_and_computed_is_counted_wherever_it_was_done(tmp_path: Path) -> None:
    write = f"open({str(tmp_path / 'own')!r}, 'wb').write(bytes({3 * MEGABYTE}))"
    child = (
        f"open({str(tmp_path / 'child')!r}, 'wb').write(bytes({5 * MEGABYTE}))\n"
        "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(600)"
    )
    body = (
        f"{write}\nwhile time.process_time() < 0.2: pass\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()"
    )
    with started(body) as (pid, _):
        opened = os.open(f"/proc/{pid}/io", os.O_RDONLY)
        own = measure_writes(pid, alone=True)
        assert 3 * MEGABYTE <= own < 4 * MEGABYTE
        assert measure_writes(pid, opened, alone=True) == own
        assert 8 * MEGABYTE <= measure_writes(pid, opened) < 10 * MEGABYTE
        os.close(opened)
        assert measure_writes(pid, opened, alone=True) == own, "another descriptor by now, or none"
        times = psutil.Process(pid).cpu_times()
        assert measure_cpu(pid, alone=True) == pytest.approx(times.user + times.system, abs=0.05)
        assert measure_cpu(pid) - measure_cpu(pid, alone=True) >= 0.28
    assert (measure_writes(pid), measure_cpu(pid)) == (0, 0)


@pytest.mark.parametrize(
    "hides",
    [
        "subprocess.Popen(LINGER)",
        "subprocess.Popen(LINGER, env={})",
        "subprocess.Popen(LINGER, start_new_session=True, env={})",
        # its parent is dead: only its session tells
        "subprocess.Popen(['sh', '-c', 'sleep 600 & echo $!'], env={'PATH': os.environ['PATH']}, "
        "stdout=subprocess.PIPE)",
        # its parent is dead, and it has a session of its own: only its mark tells
        "subprocess.Popen(['setsid', 'sh', '-c', 'sleep 600 & echo $!'], stdout=subprocess.PIPE)",
    ],
)
async def test_nothing_that_a_child_started_outlives_it(hides: str) -> None:
    orphan = "stdout" in hides
    said = "int(hidden.stdout.readline())" if orphan else "hidden.pid"
    with started(f"hidden = {hides}", said) as (pid, (hidden,)), started(mark=f"{MINE}x.1") as (other, _):
        assert is_running(hidden)
        kill_family(pid, f"{MINE}.1")
        await wait_until(lambda: not is_running(hidden) and not is_running(pid), "both are dead")
        assert is_running(other)


async def test_what_dead_workers_left_is_killed_by_the_beginning_of_its_mark() -> None:
    with (
        started(mark=f"{MINE}-a.1") as (one, _),
        started(mark=f"{MINE}-a.2") as (two, _),
        started(mark=f"{MINE}-ab.1") as (other, _),
    ):
        kill_marked(f"{MINE}-a.")
        await wait_until(lambda: not is_running(one) and not is_running(two), "both are dead")
        assert is_running(other)
        kill_marked(f"{MINE}-ab.1"[1:])
        assert is_running(other), "a mark is compared from its beginning"


async def test_what_began_before_the_child_is_not_of_its_family_and_zombies_are_left() -> None:
    mark = f"{MINE}-older.1"
    environment = {"PATH": os.environ["PATH"], MARK: mark}
    with subprocess.Popen(["sleep", "600"], env=environment) as older:  # noqa: ASYNC220 - it takes no time
        tick = 1 / os.sysconf("SC_CLK_TCK")
        began = time.monotonic()
        await wait_until(lambda: time.monotonic() - began > 2 * tick, "the clock of processes ticks")
        with subprocess.Popen(["sleep", "600"], env=environment) as child:  # noqa: ASYNC220
            kill_family(child.pid, mark)
            assert child.wait() == -signal.SIGKILL
            assert is_running(older.pid)
        older.kill()
