"""What has ended is written down: outcomes gather while the last write is under way, and go together."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol

from mediamill.engine.model import ClaimedJob, Failure, failure_of
from mediamill.engine.pools import Pool
from mediamill.engine.settle import Elsewhere, Fate, Finish, Settled
from mediamill.worker.away import insist
from mediamill.worker.source import Source

Outcome = Finish | Elsewhere | tuple[ClaimedJob, Failure]


class Lane(Protocol):
    """Whose outcomes they are."""

    pool: Pool
    source: Source

    def wake(self) -> None:
        """There may be something to claim."""


class Settler:
    """The outcomes of one lane on their way to the database, and how many of each there were."""

    def __init__(
        self, lane: Lane, *, settled: Callable[[Sequence[ClaimedJob]], None], rested: Callable[[], None]
    ) -> None:
        self.completed = self.failed = self.lost = 0
        self._lane, self._note_settled, self._note_rest = lane, settled, rested
        self._outcomes: list[Outcome] = []
        self._unsettled: list[ClaimedJob] = []
        self._woken, self._settled = asyncio.Event(), asyncio.Event()

    @property
    def jobs(self) -> list[ClaimedJob]:
        """What has ended, and is still in our hands."""
        return [*self._unsettled, *map(_job_of, self._outcomes)]

    @property
    def waiting(self) -> int:
        """How many that is."""
        return len(self._unsettled) + len(self._outcomes)

    @property
    def ended(self) -> int:
        """How many were settled, well or not."""
        return self.completed + self.failed

    def add(self, outcome: Outcome) -> None:
        """To be written when `wake` is called."""
        self._outcomes.append(outcome)

    def wake(self) -> None:
        """A slot is free again, perhaps with an outcome."""
        self._woken.set()

    async def settle_all(self) -> None:
        """Until nothing waits to be written."""
        self._settled.clear()
        self._woken.set()
        await self._settled.wait()

    async def settle_forever(self) -> None:
        """The loop."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._outcomes:
                batch, self._outcomes = self._outcomes, []
                self._unsettled = [_job_of(item) for item in batch]
                await self._finish([item for item in batch if isinstance(item, Finish)])
                for item in batch:
                    if isinstance(item, Elsewhere):
                        await self._reroute(item)
                    elif not isinstance(item, Finish):
                        await self._fail(*item)
                settled, self._unsettled = self._unsettled, []
                self._note_settled(settled)
            self._settled.set()
            self._note_rest()

    async def _finish(self, finishes: list[Finish]) -> None:
        if not finishes:
            return
        source = self._lane.source
        try:
            settled = await insist(lambda: source.finish(finishes))
        except Exception as error:
            if len(finishes) == 1:
                settled = Settled(failed={finishes[0].job.id: failure_of(error, traceback.format_exc())})
            else:  # what the database refuses must not take its neighbours with it
                for finish in finishes:
                    await self._finish([finish])
                return
        self.completed += len(settled.done)
        self.lost += len(settled.lost)
        for finish in finishes:
            if finish.job.id in settled.failed:
                await self._fail(finish.job, settled.failed[finish.job.id])
            elif finish.job.id in settled.done:
                await source.end_input(finish.job)
            else:
                await source.drop_input(finish.job, give_up=False)

    async def _fail(self, job: ClaimedJob, failure: Failure) -> None:
        fate = await insist(lambda: self._lane.source.fail(job, failure, self._lane.pool))
        if fate is Fate.LOST:
            self.lost += 1
            await self._lane.source.drop_input(job, give_up=False)
            return
        self.failed += 1
        if fate is Fate.DEAD and failure.refuses_file:
            await self._lane.source.drop_input(job, give_up=True)
        elif fate is Fate.DEAD:
            await self._lane.source.end_input(job, keep=True)
        self._lane.wake()  # it may come due before the next poll

    async def _reroute(self, elsewhere: Elsewhere) -> None:
        try:
            if not await insist(lambda: self._lane.source.reroute(elsewhere)):
                self.lost += 1
        except Exception as error:  # its subject refuses
            await self._fail(elsewhere.job, failure_of(error, traceback.format_exc()))


def _job_of(outcome: Outcome) -> ClaimedJob:
    return outcome[0] if isinstance(outcome, tuple) else outcome.job
