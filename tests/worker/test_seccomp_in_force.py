"""The filter on system calls as the kernel has it: in one thread of this process, and in a whole one."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import resource
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mediamill.worker import seccomp
from mediamill.worker.seccomp import filter_calls, is_available

pytestmark = [
    pytest.mark.spec("C26"),
    pytest.mark.skipif(not is_available(), reason="no filter on system calls here"),
]


def fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def connect() -> None:
    """To a port where nobody listens: the refusal of the machine is not that of the filter."""
    with socket.socket() as link:
        link.connect(("127.0.0.1", 1))


def make_pair() -> None:
    for each in socket.socketpair():
        each.close()


ATTEMPTS: dict[str, Callable[[], Any]] = {
    "fork": fork,
    "link": lambda: os.link("/proc/self/stat", "/nowhere/x"),
    "chmod": lambda: Path("/nowhere").chmod(0o700),
    "other": lambda: os.kill(os.getppid(), 0),
    "itself": lambda: os.kill(os.getpid(), 0),
    "rest": lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)),
    "limits": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    "raise limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "tcp": connect,
    "unix": lambda: socket.socket(socket.AF_UNIX).close(),
    "pair": make_pair,
    "card": lambda: fcntl.ioctl(0, 0xC00464B2, bytes(64)),
    "read": lambda: open("/proc/self/stat").close(),  # noqa: PTH123
}
NO_SOCKET = {"tcp": "EACCES", "unix": "EACCES"}
CHILD = {
    **dict.fromkeys(("fork", "link", "chmod", "other", "rest", "raise limits", "card"), "EPERM"),
    **dict.fromkeys(("itself", "limits", "pair", "read"), "done"),
    **NO_SOCKET,
}
KINDS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    ({"programs": True}, {"fork": "done", "other": "done"}),
    ({"devices": True}, {"card": "other"}),
    ({"families": (socket.AF_INET,)}, {"tcp": "ECONNREFUSED"}),
]


@pytest.mark.parametrize(("given", "differs"), KINDS)
def test_a_child_may_do_what_it_was_given_and_no_more(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], differs: dict[str, str]
) -> None:
    monkeypatch.setattr(seccomp, "FLAG_TSYNC", 0)  # this thread alone

    def said(name: str) -> str:
        try:
            ATTEMPTS[name]()
        except OSError as error:
            if name == "card" and error.errno != errno.EPERM:
                return "other"  # whatever is no terminal says
            return errno.errorcode[error.errno or 0]
        except ValueError:  # so Python says it of limits
            return "EPERM"
        return "done"

    def attempt_all() -> dict[str, str]:
        filter_calls(**given)
        return {name: said(name) for name in ATTEMPTS}

    with ThreadPoolExecutor(max_workers=1) as thread:
        found = thread.submit(attempt_all).result()
    assert found == {**CHILD, **differs}


def test_threads_that_run_already_are_held_as_well() -> None:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            with ThreadPoolExecutor(max_workers=1) as thread:
                thread.submit(os.getpid).result()  # it is there
                filter_calls()
                try:
                    thread.submit(fork).result()
                    os.write(write, b"forked")
                except PermissionError:
                    os.write(write, b"held")
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    assert os.read(read, 9) == b"held"
    os.close(read)


def test_a_filter_that_cannot_be_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "FLAG_TSYNC", 1 << 20)  # no such flag
    with (
        ThreadPoolExecutor(max_workers=1) as thread,
        pytest.raises(OSError, match="cannot be set") as refused,
    ):
        thread.submit(filter_calls).result()
    assert refused.value.errno == errno.EINVAL
    monkeypatch.setattr(seccomp, "PR_SET_NO_NEW_PRIVS", 9_999)
    with ThreadPoolExecutor(max_workers=1) as thread, pytest.raises(OSError, match="no_new_privs") as refused:
        thread.submit(filter_calls).result()
    assert refused.value.errno == errno.EINVAL


def test_a_machine_whose_numbers_are_not_known_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "sparc64")
    assert not is_available()
    monkeypatch.undo()
    monkeypatch.setattr(seccomp, "GET_ACTION_AVAIL", 99)
    assert not is_available(), "the kernel does not answer"
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not is_available()
