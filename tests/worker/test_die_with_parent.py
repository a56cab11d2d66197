"""A process that is not to outlive its parent."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from mediamill.worker.die_with_parent import die_with_parent


def in_a_child(parent: int) -> int:
    """The exit code of a process that says who its parent should be; 7 if it goes on."""
    if (pid := os.fork()) == 0:
        try:
            die_with_parent(parent)
            os._exit(7)
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_whose_parent_has_died_already_ends_at_once() -> None:
    assert in_a_child(os.getpid()) == 7
    assert in_a_child(os.getppid()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not do that")
def test_a_child_ends_when_its_parent_is_killed_even_if_it_hangs() -> None:
    alive, held = os.pipe()
    started, telling = os.pipe()
    if (parent := os.fork()) == 0:
        own = os.getpid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.close(alive)
            die_with_parent(own)
            os.write(telling, b"x")
            time.sleep(600)
            os._exit(0)
        os.close(held)
        time.sleep(600)
        os._exit(0)
    os.close(held)
    os.close(telling)
    assert os.read(started, 1) == b"x"
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert os.read(alive, 1) == b"", "nobody holds the other end any more"
    os.close(alive)
    os.close(started)
