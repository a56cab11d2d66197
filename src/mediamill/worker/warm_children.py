"""The children of one sandbox: how many there are, and which job gets which.

Up to `size` jobs run at once, each in a child that is started when it is first needed. A child that is lost is
replaced at once. Once one was lost with its job, or a job has used up half of its time, one more child waits as a
spare: the slot of the next that is killed is back at once, however long the processor takes to load. Children
are used last in, first out: that keeps one hot, and those that nobody has needed for a while are ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mediamill.worker.child_starter import ChildStarter
from mediamill.worker.failures import ProcessorStartError, SandboxClosedError
from mediamill.worker.scratch_removal import ScratchRemoval
from mediamill.worker.spawn import Limits
from mediamill.worker.waiting_jobs import WaitingJobs
from mediamill.worker.warm_child import WarmChild

TEND_SECONDS = 0.5
_RETIRED = SandboxClosedError("the child process is replaced")


class WarmChildren:
    """All of them, those that are loading included. Closed until it is opened with a starter."""

    def __init__(
        self,
        removal: ScratchRemoval,
        *,
        limits: Limits,
        size: int,
        spare: int,
        max_jobs_per_child: int,
        idle_seconds: float,
    ) -> None:
        self.limits, self.size, self.idle_seconds = limits, size, idle_seconds
        self._removal, self._spare, self._max_jobs = removal, spare, max_jobs_per_child
        self._starter: ChildStarter | None = None  # while it is open
        self._needed = 0  # children at once, so far, less those that idled too long
        self._spares = 0  # beyond those
        self._tending: asyncio.TimerHandle | None = None
        self._children: set[WarmChild] = set()
        self._idle: list[WarmChild] = []
        self._waiting = WaitingJobs()
        self._running = 0

    def __iter__(self) -> Iterator[WarmChild]:
        return iter(self._children)

    def __len__(self) -> int:
        return len(self._children)

    @property
    def free_slots(self) -> int:
        """Jobs that could start now without waiting for another to end."""
        return max(0, self.size - self._running - len(self._waiting))

    def open(self, starter: ChildStarter) -> None:
        """From now on children are started as jobs come."""
        self._starter = starter

    async def close(self) -> None:
        """Kill all at once. Jobs that run or wait fail with SandboxClosedError."""
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.close()
        if self._tending is not None:
            self._tending.cancel()
        closed = SandboxClosedError()
        self._waiting.fail(closed)
        ending = list(self._children)
        for child in ending:
            child.end(closed)
        await asyncio.gather(*(child.wait_until_reaped() for child in ending), return_exceptions=True)

    # -- which job gets which

    async def take(self, owner: str) -> WarmChild:
        """A child for one job; whoever gets it must put it back."""
        while True:
            child = None if self._waiting else self._pick(owner)
            if child is None:
                child = await self._wait_for_child(owner)
            if child.alive:
                child.owner = owner
                return child
            self.put_back(child)  # it died on the way

    def put_back(self, child: WarmChild) -> None:
        """Its job has ended, however it did."""
        self._running -= 1
        if child.alive:
            if self._is_spent(child):
                child.end(_RETIRED)
            else:
                child.idle_since = asyncio.get_running_loop().time()
                self._idle.append(child)
        self._serve()

    def _pick(self, owner: str) -> WarmChild | None:
        """The idle child that was used last, of those that worked for this owner, or for nobody yet."""
        if self._running >= self.size:
            return None
        for wanted in (owner, None):
            for child in reversed(self._idle):
                if child.owner == wanted:
                    self._running += 1
                    self._idle.remove(child)
                    return child
        return None

    async def _wait_for_child(self, owner: str) -> WarmChild:
        if self._starter is None:
            raise SandboxClosedError
        coming = self._waiting.add(owner)
        self._meet_demand()
        try:
            return await coming
        except asyncio.CancelledError:
            if not coming.cancelled() and coming.exception() is None:
                self.put_back(coming.result())
            raise

    def _serve(self) -> None:
        self._waiting.serve(self._pick)
        self._make_room()

    def _make_room(self) -> None:
        """Idle children of other owners are replaced by fresh ones, if no more children may be started."""
        fresh = sum(child.owner is None for child in self._children)
        short = min(len(self._waiting), self.size - self._running) - fresh
        room = self.size + self._spares - len(self._children)
        for child in self._idle[: max(0, short - max(0, room))]:
            child.end(_RETIRED)

    def _is_spent(self, child: WarmChild) -> bool:
        surplus = len(self._children) > self.size + self._spare
        done = child.worn or child.jobs_done >= self._max_jobs
        return surplus or done or self._is_outdated(child) or child.has_outgrown_half_its_limit()

    def _is_outdated(self, child: WarmChild) -> bool:
        had, now = child.plan.limits, self.limits
        return had is not now and (had.memory_bytes, had.file_bytes) != (now.memory_bytes, now.file_bytes)

    # -- how many there are

    def resize(self) -> None:
        """The limits or the size are others now."""
        self._needed = min(self._needed, self.size)
        for child in list(self._children):
            if (child in self._idle or not child.ready) and self._is_outdated(child):
                child.end(_RETIRED)
        while self._idle and len(self._children) > self.size + self._spare:
            self._idle[0].end(_RETIRED)
        self._meet_demand()
        self._serve()

    def _meet_demand(self) -> None:
        """A child for each job, besides those that are idle because they worked for others."""
        idle = sum(child.owner is not None for child in self._idle)
        self._needed = max(self._needed, min(self.size, self._running + len(self._waiting) + idle))
        self._fill()
        self._make_room()

    def _keep_spare(self) -> None:
        self._spares = self._spare
        self._fill()

    def _fill(self) -> None:
        """Start the children that are missing; those that are loading count."""
        starter = self._starter
        if starter is None:
            return
        while not starter.paused and len(self._children) < self._needed + self._spares:
            try:
                self._children.add(starter.start(self.limits, self._on_ready, self._on_gone))
            except ProcessorStartError as error:
                self._start_failed(starter, error)
        if self._children and self._tending is None:
            self._tending = asyncio.get_running_loop().call_later(TEND_SECONDS, self._tend)

    def _tend(self) -> None:
        """Twice a second while there are children: end those that idle, prepare for one that may be killed."""
        self._tending = None
        now = asyncio.get_running_loop().time()
        for child in [each for each in self._idle if now - each.idle_since >= self.idle_seconds]:
            self._needed = max(0, self._needed - (0 if self._spares else 1))
            self._spares = 0
            child.end(_RETIRED)
        if any(child.is_late for child in self._children):
            self._keep_spare()
        self._fill()

    def _on_ready(self, child: WarmChild) -> None:
        if self._starter is not None:
            self._starter.note_success()
        child.idle_since = asyncio.get_running_loop().time()
        self._idle.insert(0, child)
        self._serve()

    def _on_gone(self, child: WarmChild, reason: Exception) -> None:
        self._children.discard(child)
        self._removal.begin(child, child.plan.folder)
        if child in self._idle:
            self._idle.remove(child)
        if not child.ready and reason is not _RETIRED and self._starter is not None:
            self._start_failed(self._starter, reason)
        elif reason is not _RETIRED:
            self._keep_spare()
        self._fill()

    def _start_failed(self, starter: ChildStarter, reason: Exception) -> None:
        """Those who wait are told, unless another child can serve them; no more attempts until a job asks for one."""
        if not any(child.ready for child in self._children):
            self._waiting.fail(reason)
        self._needed, self._spares = len(self._children), 0
        starter.pause(then=self._meet_demand)
