"""For children that run programs: a PID namespace, so that nothing they start outlives them.

The child is the first process of the namespace, and the kernel kills all others with it. A namespace needs root, or a
user namespace, which some systems refuse. There the child adopts whatever it starts, and the worker kills what
it finds (process_tree.py); a program that starts others faster than they are found may get away.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_NEW_IPC, _NEW_USER, _NEW_PID = 0x08000000, 0x10000000, 0x20000000


def enter_namespace(descriptors: Sequence[int]) -> None:
    """Go on in a new process that is the first of its namespace; this one waits for it and ends as it ends.

    `descriptors`: of the worker's end, which only the new process keeps.
    """
    libc = ctypes.CDLL(None)
    if not _unshare(libc):
        libc.prctl(PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        return
    alive, held = os.pipe()
    if pid := os.fork():
        for descriptor in (*descriptors, alive, sys.stdout.fileno(), sys.stderr.fileno()):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        _end_like(os.waitpid(pid, 0)[1])
    os.close(held)
    libc.prctl(PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (signal.SIGKILL, 0, 0, 0)))
    os.set_blocking(alive, False)
    with contextlib.suppress(BlockingIOError):
        if not os.read(alive, 1):  # the other one died before the line above
            os._exit(1)
    os.close(alive)


@cache
def has_namespaces() -> bool:
    """Would this machine give a child a namespace of its own?"""
    libc = ctypes.CDLL(None)
    if (pid := os.fork()) == 0:
        os._exit(0 if _unshare(libc) else 1)
    return os.waitpid(pid, 0)[1] == 0


def _unshare(libc: ctypes.CDLL) -> bool:
    if sys.platform != "linux":
        return False
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_PID | _NEW_IPC) == 0:
        return True
    if libc.unshare(_NEW_PID | _NEW_IPC | _NEW_USER) != 0:
        return False
    with contextlib.suppress(OSError):  # without a map it is nobody, and may still read what it has open
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def _end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)
