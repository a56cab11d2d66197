"""A system call that the kernel refuses, as it does for container runtimes and systemd."""

from __future__ import annotations

import ctypes
import platform

from mediamill.worker import seccomp

# The numbers on x86-64 and on ARM64.
COPY_FILE_RANGE, UNSHARE, WRITE = (326, 285), (272, 97), (1, 64)


def refuse_call(call: tuple[int, int], number: int) -> None:
    """From now on it fails with this errno, for the calling thread and all that it starts."""
    _, column, set_filter = seccomp._MACHINES[platform.machine()]
    steps = [
        seccomp._step(seccomp._LOAD, seccomp._NUMBER_AT),
        seccomp._step(seccomp._EQUAL, call[column], 0, 1),
        seccomp._refuse(number),
        seccomp._step(seccomp._RETURN, seccomp._ALLOW),
    ]
    program, libc = seccomp._Program(len(steps), b"".join(steps)), seccomp._libc()
    assert libc.prctl(seccomp.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.syscall(set_filter, seccomp.SET_MODE_FILTER, 0, ctypes.byref(program)) == 0
