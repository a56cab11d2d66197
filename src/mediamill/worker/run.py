"""One run of one job: its slot, what the handler gets, and the choice between handler and processor."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mediamill.engine.model import ClaimedJob
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.errors import ClaimLostError, GiveUpError, MediamillError, RetryLaterError
from mediamill.processors.contract import ProcessorOutput
from mediamill.staging.derivatives import keep_files
from mediamill.staging.inputs import end_input, find_input
from mediamill.worker.failures import TIMED_OUT_NOTICE
from mediamill.worker.messages import Report
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob

if TYPE_CHECKING:
    from mediamill.worker.lane import Lane

log = logging.getLogger(__name__)

_decode = msgspec.json.Decoder().decode


class NoProcessorError(GiveUpError):
    """Nothing is there to run this job."""

    code = "no_processor"


class TimeLimitError(RetryLaterError):
    """The job took longer than its time limit."""

    code = "timeout"
    notice = TIMED_OUT_NOTICE


class Slot:
    """Where one job runs at a time."""

    __slots__ = ("claim_lost", "deadline", "job", "leaving", "stopped", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.job: ClaimedJob | None = None
        self.deadline = math.inf
        self.leaving = self.stopped = self.claim_lost = False

    def begin(self, job: ClaimedJob, deadline: float) -> None:
        """Take a job."""
        self.job, self.deadline, self.stopped, self.claim_lost = job, deadline, False, False

    def stop(self, *, claim_lost: bool = False) -> None:
        """Interrupt the job, not the slot."""
        if self.task is not None and not self.stopped:
            self.stopped, self.claim_lost = True, claim_lost
            self.task.cancel()

    def stop_cancelled(self) -> bool:
        """Was this cancellation meant for the job alone? Then the slot goes on."""
        return self.stopped and self.task is not None and self.task.cancelling() == 1

    def end(self) -> None:
        """The job is over. A cancellation that was meant for it, even one it swallowed, is not for the next."""
        if self.stopped and self.task is not None:
            self.task.uncancel()
        self.job, self.stopped = None, False


class LaneRun:
    """What a handler gets (see engine.kinds.Run)."""

    __slots__ = ("_lane", "job", "slot")

    def __init__(self, job: ClaimedJob, lane: Lane, slot: Slot) -> None:
        self.job = job
        self.slot = slot
        self._lane = lane

    @property
    def payload(self) -> Any:
        """The JSON object that was enqueued."""
        return _decode(self.job.payload_json)

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt saved."""
        return None if self.job.checkpoint_json is None else _decode(self.job.checkpoint_json)

    async def report(
        self, step: str | None = None, percent: float | None = None, parts: Any = None, checkpoint: Any = None
    ) -> None:
        """Save progress and extend the lease; ClaimLostError when the job is somebody else's."""
        await self._lane.report(self.job, step=step, percent=percent, parts=parts, checkpoint=checkpoint)


class Runner:
    """Runs a job: the handler of its kind here, or else the processor of its pool in a child process."""

    def __init__(self, engine: Engine, data_folder: Path, child_idle_seconds: float = 300) -> None:
        self._engine = engine
        self._child_idle_seconds = child_idle_seconds
        self._data, self._scratch = data_folder, data_folder / "scratch"
        self._sandboxes: dict[str, Sandbox] = {}
        self._starting = asyncio.Lock()

    def deadline(self, job: ClaimedJob, pool: Pool) -> float:
        """When a job in this process is over its time; a child has its own watch."""
        inline = self._engine.kinds.find(job.kind).handler is not None
        return time.monotonic() + pool.timeout_seconds if inline else math.inf

    async def run(self, run: LaneRun, pool: Pool) -> Any:
        """The result, or the failure as an exception."""
        kind = self._engine.kinds.get_or_retry(run.job.kind)
        if kind.handler is not None:
            return await kind.handler(run)
        given = self._given(run)
        sandbox = await self._sandbox(pool)
        reporter = _Reporter(run)
        kept: dict[str, Any] = {}

        async def keep(folder: Path, output: ProcessorOutput) -> None:
            kept.update(await asyncio.to_thread(keep_files, self._data, run.job, folder, output.files))

        try:
            output = await sandbox.run(given, reporter.put, keep)
        finally:
            await reporter.close()
        return {**output.result, "files": kept} if kept else output.result

    def _given(self, run: LaneRun) -> SandboxJob:
        payload = run.payload
        file = find_input(self._data, payload)
        return SandboxJob(payload, run.job.mime_type, file, run.checkpoint, run.job.attempts)

    def end_input(self, job: ClaimedJob, *, keep: bool = False) -> None:
        """The job has ended, and it is in the database that it has: its staged file is not needed any more."""
        if self._engine.kinds.find(job.kind).owns_input:
            try:
                end_input(self._data, _decode(job.payload_json), keep=keep)
            except OSError as error:  # the sweep of staged files tries again
                log.warning("the staged file of job %d cannot be deleted: %s", job.id, error)

    async def prepare(self, pool: Pool) -> None:
        """Find out now, not with the first job, whether there is such a processor."""
        if pool.processor is not None:
            try:
                await self._sandbox(pool)
            except MediamillError as error:
                log.error("pool %s: %s", pool.name, error)

    async def close_pool(self, name: str) -> None:
        """The pool is no more."""
        sandbox = self._sandboxes.pop(name, None)
        if sandbox is not None:
            await sandbox.close()

    async def close(self) -> None:
        """Kill all children."""
        await asyncio.gather(*(sandbox.close() for sandbox in self._sandboxes.values()))
        self._sandboxes.clear()

    async def _sandbox(self, pool: Pool) -> Sandbox:
        found = self._sandboxes.get(pool.name)
        limits = Limits(pool.timeout_seconds, pool.memory_bytes, self._engine.payload_limit_bytes)
        if found is not None and (found.processor, found.mime_types) == (pool.processor, pool.matches):
            if found.limits != limits:
                found.limits = limits
            if found.size != pool.concurrency:
                found.size = pool.concurrency
            return found
        async with self._starting:
            if self._sandboxes.get(pool.name) is not found:
                return await self._sandbox_again(pool)
            await self.close_pool(pool.name)
            if pool.processor is None:
                raise NoProcessorError(
                    f"the pool {pool.name} has no processor",
                    fix=f"mediamill pools set {pool.name} processor=NAME",
                )
            sandbox = Sandbox(
                pool.processor,
                size=pool.concurrency,
                limits=limits,
                scratch=self._scratch,
                mime_types=pool.matches,
                idle_seconds=self._child_idle_seconds,
            )
            await sandbox.start()
            self._sandboxes[pool.name] = sandbox
            return sandbox

    async def _sandbox_again(self, pool: Pool) -> Sandbox:
        sandbox = self._sandboxes.get(pool.name)
        if sandbox is None:
            raise RetryLaterError(f"the processor of pool {pool.name} is being replaced")
        return sandbox


class _Reporter:
    """Saves a child's reports one after the other, the newest of each thing told; the last is not lost."""

    def __init__(self, run: LaneRun) -> None:
        self._run = run
        self._waiting: dict[str, Any] = {}
        self._task: asyncio.Task[None] | None = None

    def put(self, report: Report) -> None:
        """Called for each report, from the event loop."""
        told = {
            "step": report.step,
            "percent": report.percent,
            "parts": report.parts,
            "checkpoint": report.checkpoint,
        }
        self._waiting |= {name: value for name, value in told.items() if value is not None}
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._save())

    async def _save(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                await self._run.report(**waiting)
            except ClaimLostError:
                self._run.slot.stop(claim_lost=True)
                return
            except MediamillError as error:
                log.warning("a report of job %d was refused: %s", self._run.job.id, error)

    async def close(self) -> None:
        """Wait for what was told to be saved."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
