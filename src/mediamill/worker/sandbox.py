"""A pool of warm child processes for one processor: a child that hangs, eats memory or dies costs one job.

Up to `size` jobs run at once, each in a child that is started when it is first needed. A child that is lost is
replaced at once. Once one was lost with its job, or a job has used up half of its time, one more child waits as a
spare: the slot of the next that is killed is back at once, however long the processor takes to load. Children
are used last in, first out: that keeps one hot, and those that nobody has needed for a while are ended.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mediamill.clock import wait_at_most
from mediamill.errors import UnavailableError
from mediamill.processors.contract import ProcessorOutput
from mediamill.processors.registry import find_processor, runs_programs
from mediamill.worker.confine import log_confinement
from mediamill.worker.failures import (
    InvalidOutputError,
    MemoryLimitError,
    ProcessorCrashedError,
    ProcessorFailedError,
    ProcessorGaveUpError,
    ProcessorStartError,
    ProcessorTimeoutError,
    SandboxClosedError,
)
from mediamill.worker.fetch_models import MISSING, fetch_hub_models
from mediamill.worker.messages import Done, KeptFile, Report, Spent, Work, frame
from mediamill.worker.open_input import OpenInput, open_input
from mediamill.worker.scratch import Home, clear_leftovers, empty_folder, remove_folder, take_files
from mediamill.worker.spawn import ChildPlan, Limits
from mediamill.worker.warm_child import WarmChild

__all__ = [
    "InvalidOutputError",
    "Limits",
    "MemoryLimitError",
    "ProcessorCrashedError",
    "ProcessorFailedError",
    "ProcessorGaveUpError",
    "ProcessorStartError",
    "ProcessorTimeoutError",
    "Report",
    "Sandbox",
    "SandboxClosedError",
    "SandboxJob",
]

REAP_SECONDS = 5.0
TEND_SECONDS = 0.5
Keep = Callable[[Path, ProcessorOutput], Awaitable[None]]
Take = Callable[[Mapping[str, str]], Path]


@dataclass(frozen=True, slots=True)
class SandboxJob:
    """One attempt at one job, as the processor will see it."""

    payload: Mapping[str, Any] = field(default_factory=dict)
    mime_type: str | None = None
    file: Path | None = None
    checkpoint: Any = None
    attempt: int = 1
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    on_spent: Callable[[Spent], None] | None = None  # whoever traces
    owner: str = ""  # a child that worked for one owner works for no other

    @property
    def members(self) -> Sequence[str] | None:
        """If its file is a folder: the files in it that the job is about."""
        match self.payload.get("file"):
            case {"files": list(names)}:
                return names
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    owner: str
    child: asyncio.Future[WarmChild]


class Sandbox:
    """Runs one processor in child processes. Not for sharing between event loops."""

    def __init__(
        self,
        processor: str,
        *,
        size: int,
        limits: Limits,
        scratch: Path,
        spare: int = 1,
        mime_types: tuple[str, ...] = (),
        max_jobs_per_child: int = 10_000,
        start_seconds: float = 120,
        idle_seconds: float = 300,
    ) -> None:
        self.processor, self.mime_types = processor, mime_types
        self._size, self._limits, self._spare = size, limits, spare
        self._idle_seconds = idle_seconds
        self._needed = 0  # children at once, so far, less those that idled too long
        self._spares = 0  # beyond those
        self._tending: asyncio.TimerHandle | None = None
        self._scratch, self._max_jobs, self._start_seconds = scratch, max_jobs_per_child, start_seconds
        self._home: Home | None = None
        self._numbers = itertools.count(1)
        self._children: set[WarmChild] = set()
        self._idle: list[WarmChild] = []
        self._waiting: deque[_Waiter] = deque()
        self._running = 0
        self._start_failures = 0
        self._retry: asyncio.TimerHandle | None = None
        self._cleaning: set[asyncio.Task[None]] = set()

    @property
    def limits(self) -> Limits:
        """May be replaced while jobs run: running ones keep the old ones, idle children are replaced."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        self._resize()

    @property
    def size(self) -> int:
        """How many jobs run at once; may be changed while jobs run."""
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._size = size
        self._resize()

    @property
    def free_slots(self) -> int:
        """Jobs that could start now without waiting for another to end."""
        return max(0, self._size - self._running - len(self._waiting))

    async def start(self) -> None:
        """Clear what dead workers left. Children come with the first jobs."""
        self._point = find_processor(self.processor)
        self._loop = asyncio.get_running_loop()
        try:
            await asyncio.to_thread(clear_leftovers, self._scratch)
            self._home = Home(self._scratch)
        except OSError as error:
            raise UnavailableError(f"the scratch folder {self._scratch} cannot be used: {error}") from error
        log_confinement()

    async def close(self) -> None:
        """Kill all children at once. Jobs that still run or wait fail with SandboxClosedError."""
        home, self._home = self._home, None
        if home is None:
            return
        for timer in (self._retry, self._tending):
            if timer is not None:
                timer.cancel()
        closed = SandboxClosedError()
        for waiter in self._waiting:
            if not waiter.child.done():
                waiter.child.set_exception(closed)
        self._waiting.clear()
        ending = list(self._children)
        for child in ending:
            child.end(closed)
        await asyncio.gather(*(_reaped(child) for child in ending), *self._cleaning, return_exceptions=True)
        await asyncio.to_thread(home.remove)

    async def run(
        self,
        given: SandboxJob,
        on_report: Callable[[Report], None] = lambda _: None,
        keep: Keep | None = None,
        on_kept: Callable[[KeptFile, Take], None] | None = None,
    ) -> ProcessorOutput:
        """Run one attempt. `keep(folder, output)` is awaited before the scratch folder goes, to take what is wanted.

        `on_kept` is called for each file that the processor gives away, with a function that moves such files to where
        no child can reach them, and names the folder. That folder is gone when this returns or raises.
        """
        try:
            return await self._run(given, on_report, keep, on_kept)
        except ProcessorFailedError as error:
            if error.code != MISSING:
                raise
            await fetch_hub_models()
            return await self._run(given, on_report, keep, on_kept)

    async def _run(
        self,
        given: SandboxJob,
        on_report: Callable[[Report], None],
        keep: Keep | None,
        on_kept: Callable[[KeptFile, Take], None] | None,
    ) -> ProcessorOutput:
        number = next(self._numbers)
        taken = self._open_home().path / f"taken-{number}"
        opened = OpenInput() if given.file is None else await open_input(given.file, given.members)
        try:
            limits = self._limits.for_input(opened.size_bytes)
            data = _frame(given, opened, number, limits)
            child = await self._take(given.owner)
            folder = child.plan.folder / str(number)
            hear = _split(on_report, on_kept, partial(_take_out, folder, taken), given.on_spent)
            work = child.assign(number, data, opened.descriptors, limits, hear)
        finally:
            opened.close()
        try:
            done = await work
        except BaseException:
            if child.busy:  # this run was cancelled
                child.end(ProcessorFailedError("the run was cancelled"))
            elif not work.cancelled():
                work.exception()  # seen, even if a cancellation overtook it
            may_have_folder = child.made_folder
            await self._finish_with(child)
            if may_have_folder:
                await self._clear(child, folder, taken)
            raise
        await self._finish_with(child)
        if done.folder or done.files:
            return await self._deliver(done, folder, taken, keep)
        return ProcessorOutput(done.result, done.files)

    async def _finish_with(self, child: WarmChild) -> None:
        """The next job finds no files of the last one; a child that keeps making some gets no other job."""
        try:
            temporary = child.plan.temporary_folder
            if child.alive and os.listdir(temporary):  # noqa: PTH208 - names only, and after every job
                worn, child.worn = child.worn, True  # unless this gets to its end
                child.worn = not await asyncio.to_thread(empty_folder, temporary) or worn
        except OSError:
            child.worn = True
        finally:
            self._put_back(child)

    async def _deliver(self, done: Done, folder: Path, taken: Path, keep: Keep | None) -> ProcessorOutput:
        output = ProcessorOutput(done.result, done.files)
        try:
            await asyncio.to_thread(_take_out, folder, taken, done.files)
            if keep is not None:
                await keep(taken, output)
            return output
        finally:
            await self._clear(None, folder, taken)

    async def _clear(self, child: WarmChild | None, *folders: Path) -> None:
        """Remove scratch folders, even if the caller is cancelled meanwhile."""
        await asyncio.shield(self._start_cleaning(child, *folders))

    def _start_cleaning(self, child: WarmChild | None, *folders: Path) -> asyncio.Task[None]:
        task = self._loop.create_task(_remove_when_dead(child, folders))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)
        return task

    def _open_home(self) -> Home:
        if self._home is None:
            raise SandboxClosedError
        return self._home

    async def _take(self, owner: str) -> WarmChild:
        """A child for one job; whoever gets it must put it back."""
        while True:
            child = None if self._waiting else self._pick(owner)
            if child is None:
                child = await self._wait_for_child(owner)
            if child.alive:
                child.owner = owner
                return child
            self._put_back(child)  # it died on the way

    def _pick(self, owner: str) -> WarmChild | None:
        """The idle child that was used last, of those that worked for this owner, or for nobody yet."""
        if self._running >= self._size:
            return None
        for wanted in (owner, None):
            for child in reversed(self._idle):
                if child.owner == wanted:
                    self._running += 1
                    self._idle.remove(child)
                    return child
        return None

    async def _wait_for_child(self, owner: str) -> WarmChild:
        self._open_home()
        waiter = _Waiter(owner, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._meet_demand()
        try:
            return await waiter.child
        except asyncio.CancelledError:
            if not waiter.child.cancelled() and waiter.child.exception() is None:
                self._put_back(waiter.child.result())
            raise

    def _serve(self) -> None:
        """In their order; but who can be served is not held up by one who waits for a fresh child."""
        for waiter in list(self._waiting):
            if waiter.child.done():  # cancelled while it waited
                self._waiting.remove(waiter)
            elif (child := self._pick(waiter.owner)) is not None:
                self._waiting.remove(waiter)
                waiter.child.set_result(child)
        self._make_room()

    def _make_room(self) -> None:
        """Idle children of other owners are replaced by fresh ones, if no more children may be started."""
        fresh = sum(child.owner is None for child in self._children)
        short = min(len(self._waiting), self._size - self._running) - fresh
        room = self._size + self._spares - len(self._children)
        for child in self._idle[: max(0, short - max(0, room))]:
            child.end(_RETIRED)

    def _put_back(self, child: WarmChild) -> None:
        self._running -= 1
        if child.alive:
            if self._is_spent(child):
                child.end(_RETIRED)
            else:
                child.idle_since = self._loop.time()
                self._idle.append(child)
        self._serve()

    def _is_spent(self, child: WarmChild) -> bool:
        surplus = len(self._children) > self._size + self._spare
        done = child.worn or child.jobs_done >= self._max_jobs
        return surplus or done or self._is_outdated(child) or child.has_outgrown_half_its_limit()

    def _is_outdated(self, child: WarmChild) -> bool:
        had, now = child.plan.limits, self._limits
        return had is not now and (had.memory_bytes, had.file_bytes) != (now.memory_bytes, now.file_bytes)

    def _meet_demand(self) -> None:
        """A child for each job, besides those that are idle because they worked for others."""
        idle = sum(child.owner is not None for child in self._idle)
        self._needed = max(self._needed, min(self._size, self._running + len(self._waiting) + idle))
        self._fill()
        self._make_room()

    def _keep_spare(self) -> None:
        self._spares = self._spare
        self._fill()

    def _fill(self) -> None:
        """Start the children that are missing; those that are loading count."""
        while self._home and self._retry is None and len(self._children) < self._needed + self._spares:
            mark = f"{self._home.name}.{next(self._numbers)}."
            folder = self._home.path / f"child-{mark}"
            plan = ChildPlan(
                self.processor,
                self._point.value,
                mark,
                self._limits,
                self._start_seconds,
                folder,
                self.mime_types,
                runs_programs(self._point),
            )
            try:
                plan.temporary_folder.mkdir(mode=0o700, parents=True)
                self._children.add(WarmChild(plan, self._on_ready, self._on_gone))
            except OSError as error:
                self._start_failed(ProcessorStartError(f"no child process can be started: {error}"))
        if self._home and self._children and self._tending is None:
            self._tending = self._loop.call_later(TEND_SECONDS, self._tend)

    def _tend(self) -> None:
        """Twice a second while there are children: end those that idle, prepare for one that may be killed."""
        self._tending = None
        now = self._loop.time()
        for child in [each for each in self._idle if now - each.idle_since >= self._idle_seconds]:
            self._needed = max(0, self._needed - (0 if self._spares else 1))
            self._spares = 0
            child.end(_RETIRED)
        if any(child.is_late for child in self._children):
            self._keep_spare()
        self._fill()

    def _resize(self) -> None:
        self._needed = min(self._needed, self._size)
        for child in list(self._children):
            if (child in self._idle or not child.ready) and self._is_outdated(child):
                child.end(_RETIRED)
        while self._idle and len(self._children) > self._size + self._spare:
            self._idle[0].end(_RETIRED)
        self._meet_demand()
        self._serve()

    def _on_ready(self, child: WarmChild) -> None:
        self._start_failures = 0
        child.idle_since = self._loop.time()
        self._idle.insert(0, child)
        self._serve()

    def _on_gone(self, child: WarmChild, reason: Exception) -> None:
        self._children.discard(child)
        self._start_cleaning(child, child.plan.folder)
        if child in self._idle:
            self._idle.remove(child)
        if not child.ready and reason is not _RETIRED and self._home:
            self._start_failed(reason)
        elif reason is not _RETIRED:
            self._keep_spare()
        self._fill()

    def _start_failed(self, reason: Exception) -> None:
        """Try again later, ever more slowly; those who wait are told, unless another child can serve them."""
        self._start_failures += 1
        if not any(child.ready for child in self._children):
            while self._waiting:
                waiter = self._waiting.popleft().child
                if not waiter.done():
                    waiter.set_exception(reason)
        self._needed, self._spares = len(self._children), 0  # no more attempts until a job asks for one
        if self._retry is None:
            delay = min(30.0, 0.1 * 2**self._start_failures)
            self._retry = asyncio.get_running_loop().call_later(delay, self._start_again)

    def _start_again(self) -> None:
        self._retry = None
        self._meet_demand()


_RETIRED = SandboxClosedError("the child process is replaced")


def _split(
    on_report: Callable[[Report], None],
    on_kept: Callable[[KeptFile, Take], None] | None,
    take: Take,
    on_spent: Callable[[Spent], None] | None,
) -> Callable[[Report], None]:
    def hear(report: Report) -> None:
        if report.spent is not None:
            if on_spent is not None:
                on_spent(report.spent)
        elif report.kept is None:
            on_report(report)
        elif on_kept is not None:
            on_kept(report.kept, take)

    return hear


def _take_out(folder: Path, taken: Path, files: Mapping[str, str]) -> Path:
    take_files(folder, files, taken)
    return taken


def _frame(given: SandboxJob, opened: OpenInput, number: int, limits: Limits) -> bytearray:
    work = Work(
        number,
        dict(given.payload),
        given.mime_type,
        None if given.file is None else os.fsencode(given.file),
        given.checkpoint,
        given.attempt,
        limits.output_bytes,
        {name: dict(facts) for name, facts in given.kept.items()},
        given.on_spent is not None,
        opened.members,
        opened.failed,
    )
    try:
        return frame(work)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ProcessorGaveUpError(f"the payload cannot be sent: {error}", code="invalid_payload") from error


async def _reaped(child: WarmChild) -> None:
    await wait_at_most(child.reaped, REAP_SECONDS)


async def _remove_when_dead(child: WarmChild | None, folders: Sequence[Path]) -> None:
    if child is not None and not child.alive:
        await _reaped(child)
    for folder in folders:
        await asyncio.to_thread(remove_folder, folder)
