"""A hostile processor that may run programs, in a process of its own: what it starts must not outlive it.

A program: `python -m tests.worker.straying <folder> [no-namespaces]`; the latter as under systemd's RestrictNamespaces.
"""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from pathlib import Path

import psutil

from mediamill.worker import child_watch
from mediamill.worker.failures import TooManyThreadsError
from mediamill.worker.process_namespace import has_namespaces
from mediamill.worker.sandbox import SandboxJob
from tests.worker.harness import opened, wait_until
from tests.worker.refused_calls import UNSHARE, refuse_call


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
        refuse_call(UNSHARE, errno.EPERM)
    asyncio.run(main(Path(sys.argv[1])))
