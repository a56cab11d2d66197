"""How much is in the bucket, by its rows: counted in the background now and then, and told with the time of the count.

The bucket itself is not listed: that takes minutes where there are millions. Objects that nothing ever named are in no
row, and not counted; the daily sweep finds them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from mediamill.db.connection import LOST, Database
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.contract import Storage
from mediamill.storage.store import queries

log = logging.getLogger(__name__)

KEEP_SECONDS = 60.0
KEEP_FACTOR = 50  # where a count takes long, it is kept for so many times as long
WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Area:
    """The first folder of names. `files` are names; one file may be several objects, or share them with another."""

    name: str
    files: int
    objects: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BucketCount:
    """`counted_at` is None while the first count is under way. `garbage`: objects that wait to be deleted."""

    name: str
    counted_at: datetime | None = None
    areas: tuple[Area, ...] = ()
    files: int = 0
    objects: int = 0
    bytes: int = 0
    garbage: int = 0


class BucketCounter:
    """One per server."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._count = BucketCount(storage.objects.place.name) if isinstance(storage, BucketStorage) else None
        self._good_until = float("-inf")
        self._counting: asyncio.Task[None] | None = None

    async def count(self) -> BucketCount | None:
        """The last one; None: there is no bucket. Only a quick count is waited for."""
        if self._count is None:
            return None
        if self._counting is None and time.monotonic() > self._good_until:
            self._counting = asyncio.create_task(self._refresh(self._count.name))
        if self._counting is not None:
            await asyncio.wait({self._counting}, timeout=WAIT_SECONDS)
        return self._count

    async def _refresh(self, name: str) -> None:
        begun = time.monotonic()
        try:
            self._count = await count_bucket(self._database, name)
        except LOST as error:
            log.debug("the count of the bucket: the database is away: %s", error)
        except Exception:
            log.exception("the count of the bucket failed")
        finally:
            took = time.monotonic() - begun
            self._good_until = time.monotonic() + max(KEEP_SECONDS, KEEP_FACTOR * took)
            self._counting = None


async def count_bucket(database: Database, name: str) -> BucketCount:
    """Now, by reading every row."""
    async with database.connection() as connection:
        rows = await queries.count_areas.rows(connection)
        garbage = await queries.count_garbage.value(connection)
    areas = tuple(Area(row["name"], row["files"], row["objects"], row["bytes"]) for row in rows)
    return BucketCount(
        name,
        datetime.now(UTC),
        areas,
        sum(area.files for area in areas),
        sum(area.objects for area in areas),
        sum(area.bytes for area in areas),
        int(garbage),
    )
