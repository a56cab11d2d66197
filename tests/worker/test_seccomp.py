"""The filter on system calls, run instruction by instruction as the kernel runs it: what each machine allows."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from typing import Any

import pytest

from mediamill.worker.seccomp import _MACHINES, _program, is_available

X86, ARM = "x86_64", "aarch64"
ALLOWED = "allowed"
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DATAGRAM, RAW, NONBLOCK, CLOEXEC = 1, 2, 3, 0o4000, 0o2000000
TCP, UDP, MPTCP = 6, 17, 262
AUDIT = {X86: 0xC000003E, ARM: 0xC00000B7}
OTHER_AUDIT = 0x40000003  # 32-bit programs
# name: its number on each machine
CALLS = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "prlimit": (302, 261),
    "prctl": (157, 167),
    "ioctl": (16, 29),
    "socketpair": (53, 199),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "socket": (41, 198),
    "fcntl": (72, 25),
    "read": (0, 63),
    "getsockname": (51, 204),
    "execve": (59, 221),
    "flock": (73, 32),
    "connect": (42, 203),
    "sendmmsg": (307, 269),
    "listen": (50, 201),
    "ptrace": (101, 117),
    "link": (86, 37),  # linkat on ARM64
    "newest": (462, 462),
    "newer": (463, 463),
}
THREAD = 0x10000 | 0x100
NEW_USER, NEW_NET, NEW_TIME = 0x10000000, 0x40000000, 0x80
ME = -1  # stands for the process itself

# What an ordinary child may do: call, its arguments, and what comes of it.
CHILD: list[tuple[str, tuple[int, ...], str | int]] = [
    ("read", (), ALLOWED),
    ("getsockname", (), ALLOWED),
    ("clone", (THREAD,), ALLOWED),
    ("clone", (0,), errno.EPERM),
    ("clone", (THREAD | NEW_USER,), errno.EPERM),
    ("clone", (THREAD | NEW_NET,), errno.EPERM),
    ("clone3", (), errno.ENOSYS),
    ("execve", (), errno.EPERM),
    ("flock", (), errno.EPERM),
    ("connect", (), errno.EPERM),
    ("listen", (), errno.EPERM),
    ("ptrace", (), errno.EPERM),
    ("link", (), errno.EPERM),
    ("newest", (), errno.EPERM),
    ("newer", (), errno.ENOSYS),
    ("prlimit", (0, 7, 0), ALLOWED),
    ("prlimit", (1, 7, 0), errno.EPERM),
    ("prlimit", (0, 7, 8), errno.EPERM),
    ("prlimit", (0, 7, 1 << 32), errno.EPERM),
    *[("prctl", (option,), ALLOWED) for option in (15, 16, 0x53564D41)],
    *[("prctl", (option,), errno.EPERM) for option in (1, 4, 14, 17, 22, 36, 38)],
    *[("fcntl", (3, order), ALLOWED) for order in (0, 1, 2, 3, 4, 5, 36, 1030, 1032, 1034)],
    *[("fcntl", (3, order), errno.EPERM) for order in (6, 7, 8, 10, 37, 38, 1024, 1026, 1031, 1033)],
    *[
        ("ioctl", (0, order), ALLOWED)
        for order in (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
    ],
    *[("ioctl", (0, order), errno.EPERM) for order in (0x5402, 0x5412, 0x541C, 0x5452, 0x8901, 0xC00464B2)],
    *[
        ("socketpair", (UNIX, STREAM | flags), ALLOWED)
        for flags in (0, NONBLOCK, CLOEXEC, NONBLOCK | CLOEXEC)
    ],
    ("socketpair", (UNIX, DATAGRAM), errno.EPERM),
    ("socketpair", (INET, STREAM), errno.EPERM),
    ("socket", (INET, STREAM, TCP), errno.EACCES),
    ("socket", (UNIX, STREAM, 0), errno.EACCES),
    *[(name, (ME,), ALLOWED) for name in ("kill", "tgkill")],
    *[(name, (1,), errno.EPERM) for name in ("kill", "tgkill")],
]
# What differs for those that run programs, that have a graphics card, and that have sockets.
WITH_PROGRAMS: list[tuple[str, tuple[int, ...], str | int]] = [
    ("execve", (), ALLOWED),
    ("flock", (), ALLOWED),
    ("kill", (1,), ALLOWED),
    ("clone", (0,), ALLOWED),
    ("clone", (NEW_USER,), errno.EPERM),
    ("connect", (), errno.EPERM),
    *[("fcntl", (3, order), ALLOWED) for order in (6, 7, 37, 38)],
    ("fcntl", (3, 8), errno.EPERM),
]
WITH_DEVICES: list[tuple[str, tuple[int, ...], str | int]] = [
    *[("ioctl", (0, order), ALLOWED) for order in (0x5401, 0x541B, 0xC00464B2, 0x5301, 0x5501, 0x8801)],
    *[("ioctl", (0, order), errno.EPERM) for order in (0x5402, 0x5412, 0x54FF, 0x8901, 0x89FF)],
]
WITH_SOCKETS: list[tuple[str, tuple[int, ...], str | int]] = [
    ("connect", (), ALLOWED),
    ("sendmmsg", (), ALLOWED),
    ("listen", (), errno.EPERM),
    *[("socket", (family, STREAM | CLOEXEC, TCP), ALLOWED) for family in (INET, INET6)],
    *[
        ("socket", (INET, DATAGRAM | flags, UDP), ALLOWED)
        for flags in (0, NONBLOCK, CLOEXEC, NONBLOCK | CLOEXEC)
    ],
    ("socket", (INET, STREAM, 0), ALLOWED),
    *[("socket", (family, STREAM, 0), errno.EACCES) for family in (UNIX, 3, NETLINK, 17)],
    ("socket", (INET, RAW, 0), errno.EACCES),
    ("socket", (INET, STREAM, MPTCP), errno.EACCES),
    ("socket", (INET, STREAM, 1), errno.EACCES),
]
KINDS: list[tuple[dict[str, Any], list[tuple[str, tuple[int, ...], str | int]]]] = [
    ({}, CHILD),
    ({"programs": True}, WITH_PROGRAMS),
    ({"devices": True}, WITH_DEVICES),
    ({"families": (INET, INET6)}, WITH_SOCKETS),
]
CASES = [(kind, *case) for kind, cases in KINDS for case in cases]


def decide(
    machine: str, kind: dict[str, Any], number: int, arguments: tuple[int, ...] = (), audit: int = 0
) -> str | int:
    """Whether the kernel would let this call through, or the errno that it would give."""
    known, column, _ = _MACHINES[machine]
    options: dict[str, Any] = {"programs": False, "devices": False, "families": (), **kind}
    program = list(_program(known, column, **options))
    meant = [os.getpid() if each == ME else each for each in arguments]
    given = (*meant, *[0] * (6 - len(meant)))
    call = struct.pack("=IIQ6Q", number, audit or AUDIT[machine], 0, *given)
    return run_filter(program, call)


def run_filter(program: list[bytes], call: bytes) -> str | int:
    """Classic BPF, as far as filters on system calls use it (linux/bpf_common.h)."""
    at, value = 0, 0
    while True:
        code, if_true, if_false, given = struct.unpack("=HBBI", program[at])
        at += 1
        if code == 0x20:  # load a word
            (value,) = struct.unpack_from("=I", call, given)
        elif code == 0x54:
            value &= given
        elif code == 0x05:
            at += given
        elif code == 0x06:
            return ALLOWED if given == 0x7FFF0000 else _errno_of(given)
        else:
            jumps = {0x15: value == given, 0x35: value >= given, 0x45: bool(value & given)}[code]
            at += if_true if jumps else if_false


def _errno_of(action: int) -> int:
    assert action >> 16 == 5, "refused by an errno, and nobody is killed"
    return action & 0xFFFF


@pytest.mark.spec("C26")
@pytest.mark.parametrize("machine", [X86, ARM])
def test_each_call_is_allowed_or_refused_by_its_arguments(machine: str) -> None:
    column = (X86, ARM).index(machine)
    wrong = [
        (kind, name, arguments, expected, found)
        for kind, name, arguments, expected in CASES
        if (found := decide(machine, kind, CALLS[name][column], arguments)) != expected
    ]
    assert wrong == []


@pytest.mark.spec("C26")
@pytest.mark.parametrize("machine", [X86, ARM])
def test_calls_of_another_machine_are_refused_whatever_their_numbers_are(machine: str) -> None:
    read = CALLS["read"][(X86, ARM).index(machine)]
    assert decide(machine, {}, read, audit=OTHER_AUDIT) == errno.EPERM
    assert decide(machine, {}, read, audit=AUDIT[ARM if machine == X86 else X86]) == errno.EPERM
    assert decide(machine, {}, 0x40000000 | read) == errno.ENOSYS, "the second set of numbers of x86-64"


@pytest.mark.parametrize(("machine", "others"), [(X86, {101, 105, 165}), (ARM, {0, 1, 2, 3, 4})])
def test_numbers_of_one_machine_mean_nothing_on_the_other(machine: str, others: set[int]) -> None:
    allowed = {number for number in range(463) if decide(machine, {}, number) == ALLOWED}
    assert allowed.isdisjoint(others), "ptrace, setuid and mount there; asynchronous reads and writes here"
    assert 90 < len(allowed) < 150


CARD = """
import fcntl
from mediamill.worker import seccomp

seccomp.filter_calls({given})
try:
    fcntl.ioctl(0, 0xC00464B2, bytes(64))
except OSError as error:
    print(error.errno)
"""


@pytest.mark.skipif(not is_available(), reason="no filter on system calls here")
@pytest.mark.parametrize(("given", "said"), [("", errno.EPERM), ("devices=True", errno.ENOTTY)])
def test_a_graphics_card_is_asked_by_those_alone_that_have_one(given: str, said: int) -> None:
    command = [sys.executable, "-c", CARD.format(given=given)]
    done = subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=60)
    assert int(done.stdout) == said
