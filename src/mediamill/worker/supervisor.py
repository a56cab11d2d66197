"""Keeps a number of worker processes running: starts them, starts them again when they die, stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Mapping

from mediamill.clock import wait_at_most
from mediamill.environment import secret_file
from mediamill.logs import tell
from mediamill.worker.handover import HANDOVER, encode_handover, plain_of

log = logging.getLogger(__name__)

SUPERVISED = "MEDIAMILL_SUPERVISOR_PID"
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1
# Not SIGTERM: the kernel may send it once for each thread of a killed supervisor, and a second SIGTERM means "at once".
SUPERVISOR_GONE = signal.SIGHUP


class Supervisor:
    """One process per worker. A worker that was told to shut down, and left in order, is not started again."""

    def __init__(
        self, processes: int, environment: Mapping[str, str] | None = None, *, more: str = ""
    ) -> None:
        self._processes = processes
        self._given = {**os.environ, **(environment or {})}
        self._more = more
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._told = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start them all."""
        self._tasks = [asyncio.create_task(self._keep(number)) for number in range(self._processes)]

    async def stop(self) -> None:
        """Let them finish what runs."""
        self.signal(signal.SIGTERM)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def signal(self, number: signal.Signals) -> None:
        """To every worker; none is started again."""
        self._told.set()
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, number: int) -> None:
        pause, loop = 0.5, asyncio.get_running_loop()
        while not self._told.is_set():
            started_at = loop.time()
            code = await self._run_one(number)
            if code == 0 or self._told.is_set():
                return
            pause = (
                0.5 if loop.time() - started_at > STEADY_SECONDS else min(2 * pause, LONGEST_PAUSE_SECONDS)
            )
            tell(log, "worker_restarted", code=code, seconds=pause)
            await wait_at_most(self._told, pause)

    async def _run_one(self, number: int) -> int:
        try:
            process = await self._start()
        except OSError as error:  # no memory or no process left for it just now
            log.error("a worker cannot be started: %s", error)
            return -1
        self._running[number] = process
        if self._told.is_set():  # while it was being started
            process.terminate()
        try:
            return await process.wait()
        finally:
            del self._running[number]

    async def _start(self) -> asyncio.subprocess.Process:
        """The worker has its own copy of the descriptor by the time it is there."""
        with secret_file(encode_handover(self._given, self._more)) as descriptor:
            own = {SUPERVISED: str(os.getpid()), HANDOVER: str(descriptor)}
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mediamill", "worker"),
                env={**plain_of(self._given), **own},
                pass_fds=[descriptor],
                start_new_session=True,
            )


def follow_supervisor() -> None:
    """In a worker that was started by a supervisor: leave in good order when the supervisor dies."""
    parent = os.environ.get(SUPERVISED)
    if parent is None:
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, SUPERVISOR_GONE)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), SUPERVISOR_GONE)
