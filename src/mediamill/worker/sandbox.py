"""Runs one processor in child processes: a child that hangs, eats memory or dies costs one job.

An attempt gets a child and a scratch folder. What it made is moved out of the child's reach before anybody looks at
it. Which child it gets, and how many there are: warm_children.py.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path

from mediamill.errors import UnavailableError
from mediamill.processors.contract import ProcessorOutput
from mediamill.processors.registry import find_processor
from mediamill.worker.child_starter import ChildStarter
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
from mediamill.worker.messages import Done, KeptFile, Report
from mediamill.worker.open_input import OpenInput, open_input
from mediamill.worker.sandbox_job import Keep, SandboxJob, Take, frame_job, split_reports
from mediamill.worker.scratch import Home, clear_leftovers, empty_folder
from mediamill.worker.scratch_removal import ScratchRemoval
from mediamill.worker.spawn import Limits
from mediamill.worker.warm_child import WarmChild
from mediamill.worker.warm_children import WarmChildren

__all__ = [
    "InvalidOutputError",
    "Keep",
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
    "Take",
]


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
        self._scratch, self._start_seconds = scratch, start_seconds
        self._home: Home | None = None
        self._numbers = itertools.count(1)
        self._removal = ScratchRemoval()
        self._children = WarmChildren(
            self._removal,
            limits=limits,
            size=size,
            spare=spare,
            max_jobs_per_child=max_jobs_per_child,
            idle_seconds=idle_seconds,
        )

    @property
    def limits(self) -> Limits:
        """May be replaced while jobs run: running ones keep the old ones, idle children are replaced."""
        return self._children.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._children.limits = limits
        self._children.resize()

    @property
    def size(self) -> int:
        """How many jobs run at once; may be changed while jobs run."""
        return self._children.size

    @size.setter
    def size(self, size: int) -> None:
        self._children.size = size
        self._children.resize()

    @property
    def free_slots(self) -> int:
        """Jobs that could start now without waiting for another to end."""
        return self._children.free_slots

    async def start(self) -> None:
        """Clear what dead workers left. Children come with the first jobs."""
        point = find_processor(self.processor)
        try:
            await asyncio.to_thread(clear_leftovers, self._scratch)
            self._home = home = Home(self._scratch)
        except OSError as error:
            raise UnavailableError(f"the scratch folder {self._scratch} cannot be used: {error}") from error
        starter = ChildStarter(
            self.processor, point, home, mime_types=self.mime_types, start_seconds=self._start_seconds
        )
        self._children.open(starter)
        log_confinement()

    async def close(self) -> None:
        """Kill all children at once. Jobs that still run or wait fail with SandboxClosedError."""
        home, self._home = self._home, None
        if home is None:
            return
        await self._children.close()
        await self._removal.finish()
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
        if self._home is None:
            raise SandboxClosedError
        taken = self._home.path / f"taken-{number}"
        opened = OpenInput() if given.file is None else await open_input(given.file, given.members)
        try:
            limits = self.limits.for_input(opened.size_bytes)
            data = frame_job(given, opened, number, limits.output_bytes)
            child = await self._children.take(given.owner)
            folder = child.plan.folder / str(number)
            on_step = child.begin_step if given.limits_steps else None
            take = Take(folder, taken)
            hear = split_reports(on_report, on_kept, take, given.on_spent, on_step)
            work = child.assign(number, data, opened.descriptors, limits, hear)
        finally:
            opened.close()
        try:
            done = await work
        except BaseException:
            take.abandoned = True
            if child.busy:  # this run was cancelled
                child.end(ProcessorFailedError("the run was cancelled"))
            elif not work.cancelled():
                work.exception()  # seen, even if a cancellation overtook it
            may_have_folder = child.made_folder
            await self._finish_with(child)
            if may_have_folder:
                await self._removal.remove(child, folder, taken)
            raise
        await self._finish_with(child)
        if done.folder or done.files:
            return await self._deliver(done, folder, taken, take, keep)
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
            self._children.put_back(child)

    async def _deliver(
        self, done: Done, folder: Path, taken: Path, take: Take, keep: Keep | None
    ) -> ProcessorOutput:
        output = ProcessorOutput(done.result, done.files)
        try:
            await asyncio.to_thread(take, done.files)
            if keep is not None:
                await keep(taken, output)
            return output
        finally:
            await self._removal.remove(None, folder, taken)
