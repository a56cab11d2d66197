"""A hostile processor that may run programs, in a process of its own: what it starts must not outlive it.

A program: `python -m tests.worker.straying <folder> [no-namespaces]`; the latter as under systemd's RestrictNamespaces.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import platform
import sys
from pathlib import Path

import psutil

from mediamill.worker import child_watch, seccomp
from mediamill.worker.failures import TooManyThreadsError
from mediamill.worker.process_namespace import has_namespaces
from mediamill.worker.sandbox import SandboxJob
from tests.worker.harness import opened, wait_until


def refuse_namespaces() -> None:
    """From now on no process that this one starts gets a namespace."""
    unshare = 272 if platform.machine() == "x86_64" else 97
    steps = [seccomp._step(0x20, 0), seccomp._step(0x15, unshare, 0, 1), seccomp._refuse(1)]
    code = b"".join([*steps, seccomp._step(0x06, seccomp._ALLOW)])
    program, libc = seccomp._Program(len(code) // 8, code), seccomp._libc()
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.syscall(317 if unshare == 272 else 277, 1, 0, ctypes.byref(program)) == 0


def marked(mark: str) -> list[int]:
    """The processes with this word on their command lines; children have their folder there."""
    return [
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if any(mark in word for word in each.info["cmdline"] or ())
    ]


async def stray(place: Path, how: str, at_least: int) -> dict[str, int]:
    """How many there were, and how many outlived their child."""
    mark = f"stray-{how}-{place.name}"
    job = SandboxJob({"attempt": "stray", "how": how, "mark": mark, "most": 300})
    async with opened(place / mark, processor="hostile-programs", spare=0) as sandbox:
        try:
            await sandbox.run(job)
        except TooManyThreadsError:
            seen = at_least
        else:
            await wait_until(lambda: len(marked(mark)) > at_least, "they run")
            seen = len(marked(mark)) - 1
        (child, *_) = [*sandbox._children, None]
    if child is not None:
        await wait_until(lambda: not psutil.pid_exists(child.pid), "the child is gone")
    for _ in range(50):
        if not (left := marked(mark)):
            break
        await asyncio.sleep(0.1)
    return {"seen": seen, "left": len(left)}


async def main(place: Path) -> None:
    """All three. The limit is lower than usual: others may want to use the machine meanwhile."""
    child_watch.MOST_THREADS = 200
    told = {
        how: await stray(place, how, least) for how, least in (("one", 1), ("hundred", 100), ("bomb", 200))
    }
    print(json.dumps({"namespaces": has_namespaces(), **told}))


if __name__ == "__main__":
    if "no-namespaces" in sys.argv:
        refuse_namespaces()
    asyncio.run(main(Path(sys.argv[1])))
