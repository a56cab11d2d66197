"""What a child tells while it works, on its way home: reports, and finished files that are to be kept."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from mediamill.engine.pools import Pool
from mediamill.errors import ClaimLostError, MediamillError
from mediamill.staging.kept import NewKept, check_kept_name
from mediamill.worker.away import insist
from mediamill.worker.messages import KeptFile, Report
from mediamill.worker.sandbox import Take

if TYPE_CHECKING:
    from mediamill.worker.run import LaneRun

log = logging.getLogger(__name__)

MOST_WAITING = 1_000


class Reporter:
    """Saves a child's reports one after the other, the newest of each thing told; the last is not lost.

    `each`: somebody is told of the parts (a hook), so that every report with parts is saved by itself, in order.
    """

    def __init__(self, run: LaneRun, *, each: bool = False) -> None:
        self._run, self._each = run, each
        self._waiting: deque[dict[str, Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, report: Report) -> None:
        """Called for each report, from the event loop."""
        self._run.slot.note_progress()
        told = {
            "step": report.step,
            "percent": report.percent,
            "parts": report.parts,
            "checkpoint": report.checkpoint,
        }
        told = {name: value for name, value in told.items() if value is not None}
        if self._waiting and self._can_merge(told):
            self._waiting[-1] |= told
        else:
            self._waiting.append(told)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._save())

    def _can_merge(self, told: dict[str, Any]) -> bool:
        """A child that tells more than can be saved is not listened to for ever."""
        both = "parts" in told and "parts" in self._waiting[-1]
        return not (self._each and both) or len(self._waiting) >= MOST_WAITING

    async def _save(self) -> None:
        while self._waiting:
            try:
                await self._run.report(**self._waiting.popleft())
            except ClaimLostError:
                self._run.slot.stop(claim_lost=True)
                return
            except MediamillError as error:
                log.warning("a report of job %d was refused: %s", self._run.job.id, error)

    async def close(self) -> None:
        """Wait for what was told to be saved."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


class FileKeeper:
    """Takes finished files away one after the other. The first that cannot be kept fails the attempt."""

    def __init__(self, run: LaneRun, pool: Pool) -> None:
        self._run, self._pool = run, pool
        self._waiting: deque[tuple[KeptFile, Take]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    def put(self, kept: KeptFile, take: Take) -> None:
        """Called for each file, from the event loop. `take` moves files out of the child's reach."""
        self._run.slot.note_progress()
        self._waiting.append((kept, take))
        if self._error is None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._take_all())

    async def finish(self) -> None:
        """All that was given is kept when this returns; else the reason is raised."""
        if self._task is not None:
            await asyncio.wait({self._task})
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """The attempt is over; what is not taken by now is made again."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _take_all(self) -> None:
        while self._waiting:
            kept, take = self._waiting.popleft()
            try:
                new = await asyncio.to_thread(_measure, kept, take)
                await insist(partial(self._run.source.keep, self._run.job, self._pool, new))
            except Exception as error:  # whatever it is, from now on the child works for nothing
                if take.abandoned:  # why it ended is what fails the attempt
                    return
                self._error = error
                self._run.slot.stop(claim_lost=isinstance(error, ClaimLostError), failure=error)
                return


def _measure(kept: KeptFile, take: Take) -> NewKept:
    """Size and hash of a file that a child made, which is trusted with nothing."""
    check_kept_name(kept.name)
    path = take({kept.name: kept.path}) / kept.path
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
    return NewKept(kept.name, path, size, digest, kept.facts)
