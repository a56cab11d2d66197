"""A lane: the jobs of one pool on one worker, from claim to settle.

Four small loops share a buffer of claimed jobs and a list of outcomes. The claimer keeps the buffer filled (a
little ahead when jobs are short, not at all when they are long), slots take jobs from it and run them, the
settler writes down whatever has ended since its last write, the keeper extends leases. While one waits for
the database the others go on; batches grow with the load by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any

from mediamill.db.connection import LOST
from mediamill.engine.model import ClaimedJob, Failure, failure_of
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Finish, encode_result
from mediamill.errors import ClaimLostError, RetryLaterError
from mediamill.worker.run import LaneRun, Runner, Slot
from mediamill.worker.source import Source

log = logging.getLogger(__name__)

AHEAD_SECONDS = 0.25  # claim ahead what the pool runs in this time
MOST_AHEAD = 500
POLL_SECONDS = 5.0  # when no notification comes


class TimeLimitError(RetryLaterError):
    """The job took longer than its time limit."""

    code = "timeout"


class Lane:
    """One pool on one worker."""

    def __init__(
        self,
        pool: Pool,
        source: Source,
        engine: Engine,
        runner: Runner,
        *,
        changed: Callable[[], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self.pool = pool
        self.completed = self.failed = self.lost = 0
        self.paused = False
        self._source, self._engine, self._runner = source, engine, runner
        self._changed, self._crashed = changed, crashed
        self._buffer: deque[ClaimedJob] = deque()
        self._outcomes: list[Finish | tuple[ClaimedJob, Failure]] = []
        self._unsettled: list[ClaimedJob] = []
        self._claimed_at: dict[int, float] = {}
        self._slots: list[Slot] = []
        self._stopping = False
        self._work, self._room, self._woken = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._ended, self._settled = asyncio.Event(), asyncio.Event()
        self._rate, self._rate_at, self._rate_count = 0.0, time.monotonic(), 0
        self._tasks: list[asyncio.Task[None]] = []

    # -- what the worker says

    def start(self) -> None:
        """Begin to claim and run."""
        loops: Iterable[Coroutine[Any, Any, None]] = (
            self._claim_forever(),
            self._settle_forever(),
            self._keep_forever(),
            self._watch_forever(),
        )
        self._tasks = [self._begin(loop) for loop in loops]
        self.resize(self.pool)

    def _begin(self, loop: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A loop that must not end by itself: if one fails, the whole worker is told."""
        task = asyncio.create_task(loop, name=f"lane {self.pool.name}")
        task.add_done_callback(self._look_at_end)
        return task

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed(error)

    def resize(self, pool: Pool) -> None:
        """The pool was edited: limits for what starts from now on, more or fewer slots."""
        self.pool = pool
        while len(self._slots) < pool.concurrency:
            slot = Slot()
            slot.task = self._begin(self._run_slot(slot))
            self._slots.append(slot)
        for slot in self._slots[pool.concurrency :]:
            slot.leaving = True
        self._work.set()
        self.wake()

    def wake(self) -> None:
        """There may be something to claim."""
        self._woken.set()
        self._room.set()

    @property
    def running(self) -> list[ClaimedJob]:
        """What the slots are working on."""
        return [slot.job for slot in self._slots if slot.job is not None]

    async def pause(self) -> None:
        """Finish what runs, claim no more, give back what has not begun."""
        self.paused = True
        await self._give_back_buffer()

    def resume(self) -> None:
        """Claim again."""
        self.paused = False
        self.wake()

    async def finish(self) -> None:
        """Stop: what runs is finished and settled, what has not begun goes back."""
        self._stopping = True
        self.wake()
        self._work.set()
        await self._give_back_buffer()
        await asyncio.gather(*(slot.task for slot in self._slots if slot.task), return_exceptions=True)
        await self._settle_all()
        await self._cancel(self._tasks)

    async def abort(self) -> None:
        """Stop at once: kill what runs and hand everything back."""
        self._stopping = True
        jobs = [*self.running, *self._buffer]
        self._buffer.clear()
        await self._cancel([slot.task for slot in self._slots if slot.task])
        with contextlib.suppress(*LOST, asyncio.TimeoutError):
            async with asyncio.timeout(5):
                await self._settle_all()
                if jobs:
                    await self._source.hand_back(jobs)
        await self._cancel(self._tasks)

    # -- claiming

    async def _claim_forever(self) -> None:
        while not self._stopping:
            want = 0 if self.paused else self._room_for()
            self._room.clear()
            if want < 1:
                await self._room.wait()
                continue
            self._woken.clear()
            try:
                jobs, due_at = await self._source.claim(self.pool, want)
            except LOST as error:
                log.debug("claim: the database is away: %s", error)
                await self._wait_for_wake(1.0)
                continue
            if jobs:
                self._take(jobs)
            else:
                log.debug("pool %s: nothing waits", self.pool.name)
                await self._wait_for_wake(_seconds_until(due_at))

    def _take(self, jobs: list[ClaimedJob]) -> None:
        if self._stopping or self.paused:
            self._buffer.extend(jobs)
            asyncio.get_running_loop().create_task(self._give_back_buffer())
            return
        now = time.monotonic()
        for job in jobs:
            self._claimed_at[job.id] = now
        self._buffer.extend(jobs)
        self._work.set()
        self._changed()

    def _room_for(self) -> int:
        """Free slots, and a quarter of a second's work ahead."""
        now, ended = time.monotonic(), self.completed + self.failed
        if now - self._rate_at >= 0.05:
            rate = (ended - self._rate_count) / (now - self._rate_at)
            self._rate = rate if rate > self._rate else 0.7 * self._rate + 0.3 * rate
            self._rate_at, self._rate_count = now, ended
        ahead = min(MOST_AHEAD, int(self._rate * AHEAD_SECONDS))
        room = self.pool.concurrency + ahead - len(self._buffer) - len(self.running)
        # Small claims are not worth their round trip while there is still work in the buffer.
        return room if not self._buffer or room >= max(1, ahead // 2) else 0

    async def _wait_for_wake(self, seconds: float) -> None:
        """Nothing waits: until a notification, or the time when there may be something without one."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)

    async def _give_back_buffer(self) -> None:
        jobs = list(self._buffer)
        self._buffer.clear()
        for job in jobs:
            self._claimed_at.pop(job.id, None)
        if jobs:
            try:
                await self._source.hand_back(jobs)
            except LOST:
                log.warning(
                    "%d jobs could not be handed back; they come back when the lease is over", len(jobs)
                )

    # -- running

    async def _run_slot(self, slot: Slot) -> None:
        while not (self._stopping or slot.leaving):
            if not self._buffer:
                self._work.clear()
                await self._work.wait()
                continue
            job = self._buffer.popleft()
            slot.begin(job, self._runner.deadline(job, self.pool))
            try:
                result = await self._runner.run(LaneRun(job, self, slot), self.pool)
                self._outcomes.append(Finish(job, encode_result(self._engine, result)))
            except asyncio.CancelledError:
                if not slot.stop_cancelled():
                    slot.job = None
                    raise
                self._note_stopped(slot, job)
            except ClaimLostError:
                self._abandon(job)
            except Exception as error:
                text = getattr(error, "traceback", None) or traceback.format_exc()
                self._outcomes.append((job, failure_of(error, text)))
            slot.job = None
            self._ended.set()
            if len(self._buffer) <= MOST_AHEAD // 2:
                self._room.set()
        if slot.leaving and slot in self._slots:
            self._slots.remove(slot)

    def _note_stopped(self, slot: Slot, job: ClaimedJob) -> None:
        if slot.claim_lost:
            self._abandon(job)
        else:
            text = f"the job took longer than its time limit of {self.pool.timeout_seconds:g} s"
            self._outcomes.append((job, failure_of(TimeLimitError(text))))

    def _abandon(self, job: ClaimedJob) -> None:
        log.warning("job %d (%s): the claim was lost, the work is abandoned", job.id, job.kind)
        self.lost += 1
        self._claimed_at.pop(job.id, None)

    async def report(self, job: ClaimedJob, **progress: Any) -> None:
        """Progress of a running job, saved; a database that is away is no reason to stop working."""
        try:
            await self._source.report(job, self.pool, **progress)
        except LOST as error:
            log.debug("progress of job %d was not saved: %s", job.id, error)

    # -- settling

    async def _settle_all(self) -> None:
        self._settled.clear()
        self._ended.set()
        await self._settled.wait()

    async def _settle_forever(self) -> None:
        while True:
            await self._ended.wait()
            self._ended.clear()
            while self._outcomes:
                batch, self._outcomes = self._outcomes, []
                self._unsettled = [item.job if isinstance(item, Finish) else item[0] for item in batch]
                await self._settle([item for item in batch if isinstance(item, Finish)])
                for item in batch:
                    if not isinstance(item, Finish):
                        await self._fail(*item)
                for job in self._unsettled:
                    self._claimed_at.pop(job.id, None)
                self._unsettled = []
            self._settled.set()
            self._room.set()
            self._changed()

    async def _settle(self, finishes: list[Finish]) -> None:
        if not finishes:
            return
        settled = await self._insist(lambda: self._source.finish(finishes))
        self.completed += len(settled.done)
        self.lost += len(settled.lost)
        for finish in finishes:
            if finish.job.id in settled.failed:
                await self._fail(finish.job, settled.failed[finish.job.id])

    async def _fail(self, job: ClaimedJob, failure: Failure) -> None:
        if await self._insist(lambda: self._source.fail(job, failure, self.pool)):
            self.failed += 1
        else:
            self.lost += 1

    async def _insist(self, verb: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """An outcome is not dropped because the database is away for a while."""
        pause = 0.05
        while True:
            try:
                return await verb()
            except LOST as error:
                log.debug("settle: the database is away: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)

    # -- keeping

    async def _keep_forever(self) -> None:
        """Extend the leases of what is still in hand; stop working on what is not ours any more."""
        while True:
            await asyncio.sleep(max(0.2, self.pool.lease_seconds / 6))
            oldest = time.monotonic() - self.pool.lease_seconds / 4
            held = [*self.running, *self._buffer, *self._unsettled]
            jobs = [job for job in held if self._claimed_at.get(job.id, oldest) <= oldest]
            if not jobs:
                continue
            try:
                still = await self._source.extend(jobs, self.pool)
            except LOST:
                continue
            now = time.monotonic()
            for job in jobs:
                if job.id in still:
                    self._claimed_at[job.id] = now
                else:
                    self.drop(job)

    def drop(self, job: ClaimedJob) -> None:
        """The claim is lost: do not start it, or stop it."""
        if job in self._buffer:
            self._buffer.remove(job)
            self._abandon(job)
        for slot in self._slots:
            if slot.job is job:
                slot.stop(claim_lost=True)

    async def _watch_forever(self) -> None:
        """Jobs in this process have no child to kill: their slot is interrupted at the time limit."""
        while True:
            await asyncio.sleep(min(0.25, max(0.02, self.pool.timeout_seconds / 4)))
            now = time.monotonic()
            for slot in self._slots:
                if slot.job is not None and slot.deadline <= now:
                    slot.stop()

    @staticmethod
    async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
        tasks = list(tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _seconds_until(due_at: datetime | None) -> float:
    if due_at is None:
        return POLL_SECONDS
    return min(POLL_SECONDS, max(0.02, (due_at - datetime.now(UTC)).total_seconds()))
