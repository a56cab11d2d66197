"""Runs and images on a fresh database; images are files of any bytes, as the spool would leave them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mediamill.db.connection import Database
from mediamill.inputs import counters
from mediamill.inputs.accept import Accepted, accept_run
from mediamill.inputs.model import NewRun, Scope, SpooledImage
from mediamill.inputs.pending import Saved, save_pending
from mediamill.inputs.store import queries

ANN = Scope("telegram", "bot/telegram/1", "ann")
API = Scope("api", "thread")


@dataclass
class Bench:
    """What the doors do, each in a transaction of its own."""

    database: Database
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def image(self, content: bytes | None = None, **more: Any) -> SpooledImage:
        """A file with this content, or with content like no other's."""
        number = next(self._numbers)
        content = b"image %d" % number if content is None else content
        path = self.folder / f"{number}.spooled"
        path.write_bytes(content)
        return SpooledImage(
            path,
            more.pop("mime_type", "image/png"),
            len(content),
            hashlib.sha256(content).hexdigest(),
            **more,
        )

    async def accept(
        self,
        images: Sequence[SpooledImage] = (),
        *,
        scope: Scope = API,
        text: str = "look",
        claim: bool = False,
        **more: Any,
    ) -> Accepted:
        """A message, as the API takes it in; with `claim`, as Telegram does."""
        async with self.database.transaction() as connection:
            return await accept_run(connection, NewRun(scope, text, **more), images, claim_pending=claim)

    async def save(
        self, image: SpooledImage | None = None, *, scope: Scope = ANN, group: str | None = None
    ) -> Saved:
        """An image that waits for a text."""
        async with self.database.transaction() as connection:
            return await save_pending(connection, scope, image or self.image(), media_group_id=group)

    async def start(self, run_id: UUID) -> int:
        """A new try; its number."""
        async with self.database.transaction() as connection:
            tries: int = await queries.start_run.value(connection, run_id=run_id)
            return tries

    async def finish(self, run_id: UUID, tries: int, answer: str = "a cat") -> bool:
        """The agent has taken it: as the runner does, with the images gone in the same transaction."""
        async with self.database.transaction() as connection:
            done = await queries.complete_run.row(
                connection, run_id=run_id, tries=tries, answer=answer, tokens=0
            )
            if done is not None:
                await queries.delete_images_of_run.rows(connection, run_id=run_id)
            return done is not None

    async def fail(self, run_id: UUID, tries: int) -> None:
        """For good."""
        async with self.database.transaction() as connection:
            await queries.fail_run.row(
                connection, run_id=run_id, tries=tries, error_code="broken", error="it broke"
            )

    async def expire(self, where: str = "true") -> None:
        """Three days have passed for these images."""
        await self.run(f"update input_images set expires_at = now() - interval '1 second' where {where}")

    async def contents(self, run_id: UUID) -> list[bytes]:
        """The run's images in the order in which the agent gets them."""
        async with self.database.connection() as connection:
            rows = await queries.images_of_run.rows(connection, run_id=run_id)
        sql = "select image_bytes from input_images where input_image_id = $1"
        return [await self.one(sql, row["input_image_id"]) for row in rows]

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        async with self.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(sql, *args)]

    async def run(self, sql: str, *args: Any) -> None:
        async with self.database.connection() as connection:
            await connection.execute(sql, *args)


@pytest.fixture
def bench(database: Database, tmp_path: Path) -> Bench:
    """On a fresh database; counters begin at zero."""
    counters.counts.clear()
    counters.rejects.clear()
    return Bench(database, tmp_path)
