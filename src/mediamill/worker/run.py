"""One run of one job: its slot, what the handler gets, and the choice between handler and processor."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mediamill import traces
from mediamill.engine.model import ClaimedJob
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.errors import GiveUpError, MediamillError, NotNowError, RetryLaterError
from mediamill.processors.contract import ProcessorOutput
from mediamill.worker.failures import TIMED_OUT_NOTICE, ProcessorFailedError, ProcessorWaitsError
from mediamill.worker.messages import Spent
from mediamill.worker.open_input import can_list
from mediamill.worker.reporting import FileKeeper, Reporter
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob

if TYPE_CHECKING:
    from mediamill.worker.lane import Lane
    from mediamill.worker.source import Source

log = logging.getLogger(__name__)

UNREADABLE = "unreadable_file"  # said by a child, which cannot look at the place where its file is

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

    __slots__ = ("claim_lost", "deadline", "failure", "job", "leaving", "stopped", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.job: ClaimedJob | None = None
        self.deadline = math.inf
        self.leaving = self.stopped = self.claim_lost = False
        self.failure: Exception | None = None

    def begin(self, job: ClaimedJob, deadline: float) -> None:
        """Take a job."""
        self.job, self.deadline, self.stopped, self.claim_lost = job, deadline, False, False
        self.failure = None

    def stop(self, *, claim_lost: bool = False, failure: Exception | None = None) -> None:
        """Interrupt the job, not the slot. Without a failure its time is over."""
        if self.task is not None and not self.stopped:
            self.stopped, self.claim_lost, self.failure = True, claim_lost, failure
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
    def source(self) -> Source:
        """Where the job came from, and its files are."""
        return self._lane.source

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt saved."""
        return None if self.job.checkpoint_json is None else _decode(self.job.checkpoint_json)

    async def report(
        self, step: str | None = None, percent: float | None = None, parts: Any = None, checkpoint: Any = None
    ) -> None:
        """Save progress and extend the lease; ClaimLostError when the job is somebody else's."""
        await self._lane.report(self.job, step=step, percent=percent, parts=parts, checkpoint=checkpoint)


def _trace_child(pool: Pool, spent: Spent) -> None:
    """On behalf of the child, which has no network."""
    traces.past_span(
        "process",
        spent.began_ns,
        spent.ended_ns,
        processor=pool.processor,
        process__pid=spent.pid,
        cpu_seconds=round(spent.cpu_seconds, 3),
    )


class Runner:
    """Runs a job: the handler of its kind here, or else the processor of its pool in a child process."""

    def __init__(self, engine: Engine, data_folder: Path, child_idle_seconds: float = 300) -> None:
        self._engine = engine
        self._child_idle_seconds = child_idle_seconds
        self._scratch = data_folder / "scratch"
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
        spent: list[Spent] = []
        with traces.span("fetch input"):
            given = await self._given(run, kind.keeps_files, spent)
        sandbox = await self._sandbox(pool)
        reporter, keeper = Reporter(run, each=kind.on_progress is not None), FileKeeper(run, pool)
        made: dict[str, Any] = {}

        async def keep(folder: Path, output: ProcessorOutput) -> None:
            await keeper.finish()
            made.update(await run.source.keep_derivatives(run.job, folder, output.files))

        try:
            output = await sandbox.run(given, reporter.put, keep, keeper.put)
        except ProcessorFailedError as error:
            if error.code == UNREADABLE and given.file and not await can_list(given.file.parent):
                raise ProcessorWaitsError(
                    f"the place of the file does not answer: {error.message}",
                    fix="mount it again",
                    code="source_away",
                ) from error
            raise
        finally:
            for each in spent:
                _trace_child(pool, each)
            await keeper.close()
            await reporter.close()
        return {**output.result, "files": made} if made else output.result

    async def _given(self, run: LaneRun, keeps_files: bool, spent: list[Spent]) -> SandboxJob:
        job, source = run.job, run.source
        file, kept = await source.input(job), await source.kept(job) if keeps_files else {}
        on_spent = spent.append if traces.is_on() else None
        return SandboxJob(
            run.payload, job.mime_type, file, run.checkpoint, job.attempts, kept, on_spent, job.owner
        )

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
            raise NotNowError(f"the processor of pool {pool.name} is being replaced")
        return sandbox
