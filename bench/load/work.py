"""The work: a mix of jobs as real ones are, a feeder that keeps a rate, and the pools that they run in."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import NewJob
from mediamill.testing import chaos_kinds
from mediamill.testing.kinds import KINDS as SCRIPTED

TICK_SECONDS = 0.1
OWNERS = 40
POOLS: list[dict[str, Any]] = [
    {
        "name": "inline",
        "matches": ["scripted.inline", "chaos.settled"],
        "concurrency": 64,
        "backoff_seconds": 1,
    },
]
# What of a hundred jobs: with a subject all of them, so that each end is an event as well.
MIX = (
    (70, "chaos.settled", {"number": 0}),  # a hook writes a row of its subject in the job's transaction
    (15, "scripted.inline", {"result": {"text": "a result of some length " * 20}}),
    (6, "scripted.inline", {"do": "report", "times": 3, "seconds": 0.05}),  # progress: saved, and told
    (5, "chaos.settled", {"number": 0, "fail_first": True}),  # fails once, waits, and is tried again
    (3, "scripted.run", {"do": "report", "times": 2}),  # in a confined child, with checkpoints
    (1, "scripted.inline", {"do": "raise_permanent"}),  # into the dead letter
)
SUBJECTS = 500  # rows that the hooks write to, over and over


@dataclass(slots=True)
class Feeder:
    """Enqueues so many a second, in transactions of a tenth of a second's worth; or as fast as they are run."""

    database: Database
    seed: int = 1
    added: int = 0
    late_ticks: int = 0
    _enqueuer: Enqueuer = field(init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._enqueuer = Enqueuer(Kinds((*SCRIPTED, *chaos_kinds.KINDS)))
        self._random = random.Random(self.seed)

    async def feed(self, rate: float, seconds: float) -> None:
        """At this rate, whatever becomes of them: a queue that grows is a result, too."""
        began, before = time.monotonic(), self.added
        for tick in range(1, round(seconds / TICK_SECONDS) + 1):
            await self._add(round(rate * tick * TICK_SECONDS) - (self.added - before))
            wait = began + tick * TICK_SECONDS - time.monotonic()
            self.late_ticks += wait < 0
            await asyncio.sleep(max(wait, 0))

    async def saturate(self, seconds: float, ahead: int) -> float:
        """As fast as they are run, with so many always waiting; jobs ended a second: the capacity."""
        before, began = self.added - await self.waiting(), time.monotonic()
        while time.monotonic() < began + seconds:
            waiting = await self.waiting()
            if waiting < ahead:
                await self._add(min(500, ahead))
            else:
                await asyncio.sleep(0.01)
        ended = self.added - await self.waiting() - before
        return ended / (time.monotonic() - began)

    async def until_done(self, limit_seconds: float) -> None:
        """Nothing waits any more."""
        async with asyncio.timeout(limit_seconds):
            while await self.waiting():  # noqa: ASYNC110 - the state is in the database
                await asyncio.sleep(0.1)

    async def waiting(self) -> int:
        """Jobs that are not ended."""
        async with self.database.connection() as connection:
            return int(await connection.fetchval("select count(*) from jobs"))

    async def _add(self, count: int) -> None:
        """In one transaction, of one owner, as somebody who hands in a folder does."""
        owner = f"owner {self._random.randrange(OWNERS)}"
        jobs = [self._job(owner) for _ in range(count)]
        if jobs:
            async with self.database.transaction() as connection:
                await self._enqueuer.enqueue_jobs(connection, jobs)
            self.added += len(jobs)

    def _job(self, owner: str) -> NewJob:
        kind, payload = _of_a_hundred(self._random.randrange(100))
        subject = self._random.randrange(SUBJECTS)
        if "number" in payload:
            payload |= {"number": subject}
        return NewJob(kind, payload, owner=owner, subject_id=f"subject {subject}")


def _of_a_hundred(drawn: int) -> tuple[str, dict[str, Any]]:
    for share, kind, payload in MIX:
        if drawn < share:
            return kind, dict(payload)
        drawn -= share
    raise AssertionError("the shares of the mix are a hundred together")
