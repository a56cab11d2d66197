"""A lane: the jobs of one pool on one worker, from claim to settle.

Small loops share a buffer of claimed jobs and a list of outcomes. The claimer keeps the buffer filled (a
little ahead when jobs are short, not at all when they are long), slots take jobs from it and run them, the
settler (`settling.py`) writes down whatever has ended since its last write, the keeper extends leases. While one
waits for the database the others go on; batches grow with the load by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

from mediamill import traces
from mediamill.clock import wait_at_most
from mediamill.dispatch.hints import EverybodyHears, Hints
from mediamill.engine.model import ClaimedJob, failure_of
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Elsewhere, Finish, encode_result
from mediamill.errors import ClaimLostError
from mediamill.logs import at_work, tell
from mediamill.worker.away import AWAY
from mediamill.worker.failures import WrongPoolError, timeout_text
from mediamill.worker.pace import IDLE_AHEAD_SECONDS, MOST_AHEAD, MOST_UNSETTLED, Pace
from mediamill.worker.run import LaneRun, Runner, Slot, TimeLimitError
from mediamill.worker.settling import Settler
from mediamill.worker.source import Source

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0  # when no notification comes
LAST_WORDS_SECONDS = 5.0  # how long a lane that is stopped at once tries to reach the database


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
        poll_seconds: float = POLL_SECONDS,
        hints: Hints | None = None,
    ) -> None:
        self.pool = pool
        self._poll_seconds, self._hints = poll_seconds, hints or EverybodyHears()
        self.paused = False
        self.source, self._engine, self._runner = source, engine, runner
        self._changed, self._crashed = changed, crashed
        self._buffer: deque[ClaimedJob] = deque()
        self._claimed_at: dict[int, float] = {}
        self._slots: list[Slot] = []
        self._stopping = False
        self._work, self._room, self._woken = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.settler = Settler(self, settled=self._note_settled, rested=self._note_rest)
        self._pace, self._begun_at = Pace(), 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._claiming: asyncio.Task[None] | None = None
        self._finishing: asyncio.Task[None] | None = None

    # -- what the worker says

    def start(self) -> None:
        """Begin to claim and run."""
        self._claiming = self._begin(self._claim_forever())
        loops = (
            self.settler.settle_forever,
            self._keep_forever,
            self._watch_forever,
            self._tell_depth_forever,
        )
        self._tasks = [self._claiming, *(self._begin(loop()) for loop in loops)]
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
        for slot in self._slots[: pool.concurrency]:
            slot.leaving = False  # told to go by an earlier edit, and still there
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

    @property
    def held(self) -> list[ClaimedJob]:
        """Everything in this lane's hands, from the claim until it is settled."""
        return [*self.running, *self._buffer, *self.settler.jobs]

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
        self._finishing = self._finishing or asyncio.create_task(self._finish())
        await asyncio.shield(self._finishing)

    async def _finish(self) -> None:
        self._stop_claiming()
        if self._claiming is not None:  # one that is under way may bring jobs: they must not be forgotten
            await asyncio.wait({self._claiming})
        await self._give_back_buffer()
        if running := [slot.task for slot in self._slots if slot.task]:
            await asyncio.wait(running)
        await self.settler.settle_all()
        await self._cancel(self._tasks)

    async def abort(self) -> None:
        """Stop at once: kill what runs and hand everything back."""
        self._stop_claiming()
        jobs = self.running
        finishing = [self._finishing] if self._finishing is not None else []
        await self._cancel([*finishing, *(slot.task for slot in self._slots if slot.task)])
        if self._claiming is not None:
            await asyncio.wait({self._claiming}, timeout=LAST_WORDS_SECONDS)
        jobs += self._buffer
        self._buffer.clear()
        for last_word in (self.settler.settle_all(), self._hand_back(jobs)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_SECONDS):
                    await last_word
        await self._cancel(self._tasks)

    def _stop_claiming(self) -> None:
        self._stopping = True
        self.wake()
        self._work.set()

    # -- claiming

    async def _claim_forever(self) -> None:
        while not self._stopping:
            want = 0 if self.paused else self._room_for()
            self._room.clear()
            if want < 1:
                self._hints.full(self.pool.name)
                await self._room.wait()
                continue
            self._woken.clear()
            self._hints.look(self.pool.name)
            try:
                jobs, due_at = await self.source.claim(self.pool, want)
            except AWAY as error:
                log.debug("claim: the other side is away: %s", error)
                await self._wait_for_wake(1.0)
                continue
            if jobs:
                await self._take(jobs)
            else:
                self._hints.idle(self.pool.name)
                await self._wait_for_wake(_seconds_until(due_at, self._poll_seconds))
        self._hints.full(self.pool.name)

    async def _take(self, jobs: list[ClaimedJob]) -> None:
        if self._stopping or self.paused:  # told while the claim was under way
            await self._hand_back(jobs)
            return
        now = time.monotonic()
        for job in jobs:
            self._claimed_at[job.id] = now
        if not self._buffer:
            self._begun_at = now
        self._buffer.extend(jobs)
        self._work.set()
        self._changed()

    def _room_for(self) -> int:
        """Free slots, and a quarter of a second's work ahead; nothing while what has ended cannot be written down."""
        if self.settler.waiting > MOST_UNSETTLED:
            return 0
        ahead = self._pace.ahead(self.settler.ended)
        room = self.pool.concurrency + ahead - len(self._buffer) - len(self.running)
        # Small claims are not worth their round trip while there is still work in the buffer.
        return room if not self._buffer or room >= max(1, ahead // 2) else 0

    async def _wait_for_wake(self, seconds: float) -> None:
        """Nothing waits: until a notification, or the time when there may be something without one."""
        await wait_at_most(self._woken, seconds)

    async def _give_back_buffer(self) -> None:
        jobs = list(self._buffer)
        self._buffer.clear()
        for job in jobs:
            self._claimed_at.pop(job.id, None)
        await self._hand_back(jobs)

    async def _hand_back(self, jobs: list[ClaimedJob]) -> None:
        if jobs:
            try:
                await self.source.hand_back(jobs)
            except AWAY:
                if self._stopping:  # whoever notices that our session is gone puts them back
                    log.warning("%d jobs could not be handed back; they come back by themselves", len(jobs))
                else:
                    self._buffer.extend(jobs)
                    self._work.set()

    # -- running

    async def _run_slot(self, slot: Slot) -> None:
        while not (self._stopping or slot.leaving):
            if not self._buffer:
                self._work.clear()
                await self._work.wait()
                continue
            job, self._begun_at = self._buffer.popleft(), time.monotonic()
            slot.begin(job, self._runner.deadline(job, self.pool))
            at_work.set(job)
            await self._run_job(slot, job)
            at_work.set(None)
            slot.end()
            self.settler.wake()
            if len(self._buffer) <= MOST_AHEAD // 2:
                self._room.set()
        if slot.leaving and slot in self._slots:
            self._slots.remove(slot)

    async def _run_job(self, slot: Slot, job: ClaimedJob) -> None:
        """Until its outcome is known. Whoever settles it goes on in the trace from here."""
        with traces.span(
            "run",
            kind="consumer",
            parent=job.trace,
            job_id=job.id,
            job_kind=job.kind,
            pool=self.pool.name,
            attempt=job.attempts,
            worker_id=job.worker_id,
        ) as span:
            job.trace = traces.traceparent() or job.trace
            try:
                result = await self._runner.run(LaneRun(job, self, slot), self.pool)
                self.settler.add(Finish(job, encode_result(self._engine, result)))
            except asyncio.CancelledError:
                if not slot.stop_cancelled():
                    slot.job = None
                    raise
                span.fail("stopped")
                self._note_stopped(slot, job)
            except ClaimLostError as error:
                span.fail(error.code)
                self._abandon(job)
            except WrongPoolError as error:
                span.note(real_type=error.mime_type)
                self.settler.add(Elsewhere(job, error.mime_type))
            except Exception as error:
                span.fail(traces.sort_of(error))
                text = getattr(error, "traceback", None) or traceback.format_exc()
                self.settler.add((job, failure_of(error, text)))

    def _note_stopped(self, slot: Slot, job: ClaimedJob) -> None:
        if slot.claim_lost:
            self._abandon(job)
        elif slot.failure is not None:
            self.settler.add((job, failure_of(slot.failure)))
        else:
            text = timeout_text(job.kind, self.pool.timeout_seconds)
            self.settler.add((job, failure_of(TimeLimitError(text))))

    def _abandon(self, job: ClaimedJob) -> None:
        tell(log, "claim_abandoned", job_id=job.id, kind=job.kind, owner=job.owner, pool=job.pool)
        self.settler.lost += 1
        self._claimed_at.pop(job.id, None)

    def _note_settled(self, jobs: Sequence[ClaimedJob]) -> None:
        for job in jobs:
            self._claimed_at.pop(job.id, None)
        self._room.set()

    def _note_rest(self) -> None:
        """All that has ended is settled: there is room for more."""
        self._room.set()
        self._changed()

    async def report(self, job: ClaimedJob, **progress: Any) -> None:
        """Progress of a running job, saved; a database that is away is no reason to stop working."""
        try:
            await self.source.report(job, self.pool, **progress)
        except AWAY as error:
            log.debug("progress of job %d was not saved: %s", job.id, error)

    # -- keeping

    async def _keep_forever(self) -> None:
        """Extend the leases of what is still in hand; stop working on what is not ours any more."""
        while True:
            await asyncio.sleep(max(0.2, self.pool.lease_seconds / 6))
            oldest = time.monotonic() - self.pool.lease_seconds / 4
            jobs = [job for job in self.held if self._claimed_at.get(job.id, oldest) <= oldest]
            if not jobs:
                continue
            try:
                still = await self.source.extend(jobs, self.pool)
            except AWAY:
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
        """Jobs in this process have no child to kill: their slot is interrupted at the time limit.

        And when long jobs come after many short ones, what was claimed ahead for the slots must not wait for them.
        """
        while True:
            await asyncio.sleep(min(0.25, max(0.02, self.pool.timeout_seconds / 4)))
            now = time.monotonic()
            for slot in self._slots:
                if slot.job is not None and slot.deadline <= now:
                    slot.stop()
            if self._buffer and (self.paused or now - self._begun_at > IDLE_AHEAD_SECONDS):
                self._pace.stall(self.settler.ended)
                await self._give_back_buffer()

    async def _tell_depth_forever(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(*AWAY):
                tell(log, "queue_depth", pool=self.pool.name, waiting=await self.source.depth(self.pool))

    @staticmethod
    async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _seconds_until(due_at: datetime | None, at_most: float) -> float:
    if due_at is None:
        return at_most
    return min(at_most, max(0.02, (due_at - datetime.now(UTC)).total_seconds()))
