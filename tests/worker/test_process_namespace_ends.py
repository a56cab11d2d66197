"""A namespace where the kernel gives one and where it does not, and the end of a process passed on."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mediamill.worker import process_namespace
from mediamill.worker.process_namespace import _end_like, _unshare, enter_namespace

pytestmark = [
    pytest.mark.spec("C26"),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are none"),
]


def in_a_child(act: Callable[[], Any]) -> int:
    """Its wait status as an exit code; 7 if it went on."""
    if (pid := os.fork()) == 0:
        try:
            act()
            os._exit(7)
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("code", [0, 3, 255])
def test_whoever_waits_ends_with_the_code_of_the_other(code: int) -> None:
    assert in_a_child(lambda: _end_like(code << 8)) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGUSR1])
def test_whoever_waits_ends_by_the_signal_of_the_other(number: signal.Signals) -> None:
    def act() -> None:
        if number is not signal.SIGKILL:
            signal.signal(number, signal.SIG_IGN)
        _end_like(int(number))

    assert in_a_child(act) == -number


class Libc:
    """As a kernel that refuses: so many calls, before one is granted."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked: list[int] = []
        self.adopts = 0

    def unshare(self, flags: int) -> int:
        self.asked.append(flags)
        return -1 if len(self.asked) <= self.refusals else 0

    def prctl(self, option: int, value: Any, *_rest: Any) -> int:
        self.adopts += option == 36 and value.value == 1  # PR_SET_CHILD_SUBREAPER
        return 0


NEW_PID, NEW_IPC, NEW_USER = 0x20000000, 0x08000000, 0x10000000


@pytest.mark.parametrize(
    ("refusals", "given", "asked"),
    [
        (0, True, [NEW_PID | NEW_IPC]),
        (2, False, [NEW_PID | NEW_IPC, NEW_PID | NEW_IPC | NEW_USER]),
    ],
)
def test_a_user_namespace_is_asked_for_where_it_does_not_go_without(
    refusals: int, given: bool, asked: list[int]
) -> None:
    libc: Any = Libc(refusals)
    assert _unshare(libc) is given
    assert libc.asked == asked


def test_no_other_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    libc: Any = Libc(0)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not _unshare(libc)
    assert libc.asked == []


def test_a_child_without_a_namespace_adopts_what_it_starts_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    libc: Any = Libc(2)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: libc)
    before = os.getpid()
    enter_namespace([])
    assert os.getpid() == before
    assert libc.adopts == 1


@pytest.mark.parametrize(("refusals", "given"), [(0, True), (2, False)])
def test_whether_there_are_namespaces_is_tried_in_another_process(
    monkeypatch: pytest.MonkeyPatch, refusals: int, given: bool
) -> None:
    libc: Any = Libc(refusals)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: libc)
    process_namespace.has_namespaces.cache_clear()
    try:
        assert process_namespace.has_namespaces() is given
        assert libc.asked == [], "this one stays where it is"
    finally:
        process_namespace.has_namespaces.cache_clear()
