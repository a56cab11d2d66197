"""The work of a run: jobs that record each end under a number, and real images; fed as long as faults are made."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from PIL import Image

from mediamill.db.connection import LOST
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import NewJob
from mediamill.settings import Settings
from mediamill.staging import jobs as staging
from mediamill.staging.process import job_of_file
from mediamill.testing import chaos_kinds

AWAY = (*LOST, asyncpg.PostgresError)  # it is killed now and then
KINDS = ("chaos.settled", "chaos.delivered", "chaos.processed")
TICK_SECONDS = 0.5
IMAGE_SECONDS = 10.0
# Nothing is handed in while so many seconds' worth of jobs wait. A machine too busy for the pace would fall behind for
# good: what is handed in after a fault, by which a worker shows that it works again, would wait behind all of it.
BACKLOG_SECONDS = 30.0


@dataclass(slots=True)
class Look:
    """One connection past every cable; made again whenever the database was away."""

    url: str
    _connection: Any = None

    async def one(self, sql: str, *args: Any) -> Any:
        """A value, as soon as the database is there."""
        return (await self.rows(sql, *args))[0][0]

    async def rows(self, sql: str, *args: Any) -> list[Any]:
        while True:
            try:
                return list(await (await self.connected()).fetch(sql, *args, timeout=10))
            except AWAY:
                await self.close()
                await asyncio.sleep(0.1)

    async def connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.url, timeout=5)
        return self._connection

    async def close(self) -> None:
        if self._connection is not None:
            with suppress(*AWAY):
                self._connection.terminate()
            self._connection = None


@dataclass(slots=True)
class Feeder:
    """Some jobs a second, with keys, so that what was not heard to be taken can be handed in again."""

    url: str
    folder: Path
    rng: random.Random
    per_second: float = 20
    owners: int = 7
    jobs: int = 0
    images: int = 0
    _enqueuer: Enqueuer = field(default_factory=lambda: Enqueuer(Kinds((*chaos_kinds.KINDS, *staging.KINDS))))

    async def feed(self) -> None:
        """Until it is cancelled."""
        look, image_at = Look(self.url), time.monotonic()
        try:
            while True:
                if await look.one("select count(*) from jobs") < self.per_second * BACKLOG_SECONDS:
                    image = time.monotonic() >= image_at
                    image_at += IMAGE_SECONDS * image
                    await self._hand_in(look, image)
                await asyncio.sleep(TICK_SECONDS)
        finally:
            await look.close()

    async def _hand_in(self, look: Look, image: bool) -> None:
        batch = [self._job(self.jobs + more) for more in range(round(self.per_second * TICK_SECONDS))]
        await self._insist(look, [*batch, self._image()] if image else batch)
        self.jobs += len(batch)
        self.images += image

    async def _insist(self, look: Look, batch: list[NewJob]) -> None:
        while True:
            try:
                connection = await look.connected()
                async with asyncio.timeout(10), connection.transaction():
                    await self._enqueuer.enqueue_jobs(connection, batch)
                return
            except AWAY:
                await look.close()
                await asyncio.sleep(0.1)

    def _job(self, number: int) -> NewJob:
        seconds = self.rng.uniform(2, 5) if self.rng.random() < 0.1 else self.rng.uniform(0.02, 0.3)
        payload = {
            "number": number,
            "do": "sleep",
            "seconds": round(seconds, 3),
            "fail_first": self.rng.random() < 0.05,
        }
        return NewJob(
            KINDS[number % len(KINDS)],
            payload,
            owner=f"owner {number % self.owners}",
            subject_id=f"subject {number}",
            max_attempts=1000,
            idempotency_key=str(number),
        )

    def _image(self) -> NewJob:
        """A picture like no other, so that nobody has it from before."""
        path = self.folder / f"{self.images}.png"
        colour = tuple(self.rng.randrange(256) for _ in range(3))
        Image.new("RGB", (320, 240), colour).save(path)
        return job_of_file(path, Settings(), previews=False)
