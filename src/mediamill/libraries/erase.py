"""Out of the trash, for good: batch by batch, and of a batch slice by slice, a commit after each. After a slice there
is a rest of twice the time it took: whoever searches meanwhile shares the machine with one slice at most, and whoever
wants a row that is being erased waits for no rest.

A library is marked first: from then on it cannot be restored, and whoever comes goes on erasing it, be it the command
that asked for it or a server. Every slice holds the library's row: two that erase it take turns. Assets that a job is
just being settled for are passed over and taken in the next round, so that nobody waits for anybody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from asyncpg import LockNotAvailableError, Record

from mediamill.db.connection import LOST, Connection, Database
from mediamill.db.queries import Query
from mediamill.engine.browse import browse_dead
from mediamill.engine.dead import purge_dead
from mediamill.engine.hold import forget_owner
from mediamill.libraries.look import lock_library
from mediamill.libraries.model import owner_of
from mediamill.libraries.store import queries
from mediamill.libraries.trash import NotInTrashError
from mediamill.staging.kept import forget_kept

log = logging.getLogger(__name__)

BATCH = 5_000
SLICE = 500
LOOK_SECONDS = 2.0
QUIET_SECONDS = 10.0
REST_FACTOR, REST_LEAST_SECONDS, REST_MOST_SECONDS = 2, 0.01, 2.0


@dataclass(slots=True)
class Erased:
    """How much is gone so far."""

    libraries: int = 0
    assets: int = 0
    moments: int = 0  # scenes and frames of videos


OnProgress = Callable[[Erased], None]


class _GoneError(Exception):
    """Somebody else has erased it meanwhile."""


async def mark_for_erasing(connection: Connection, slug: str | None = None) -> list[str]:
    """From now on it cannot be restored; erasing it is the next thing that somebody does. All, if none is named."""
    if slug is not None:
        await _check_in_trash(connection, slug)
    rows = await queries.mark_erasing.rows(connection, slug=slug)
    for row in rows:
        await forget_owner(connection, owner_of(row["number"]))
        await queries.tell.run(connection, number=row["number"])
    return [row["slug"] for row in rows]


async def empty_trash(
    database: Database, slug: str | None = None, on_progress: OnProgress | None = None
) -> Erased:
    """Erase what is in the trash, or one library of it."""
    async with database.transaction() as connection:
        await mark_for_erasing(connection, slug)
    return await erase_marked(database, slug, on_progress)


async def erase_marked(
    database: Database,
    slug: str | None = None,
    on_progress: OnProgress | None = None,
    quiet_seconds: float = 0,
) -> Erased:
    """Erase what is marked, or go on with it. `quiet_seconds`: only what nobody has been at for so long."""
    erased = Erased()
    async with database.connection() as connection:
        marked = await queries.list_erasing.rows(connection, slug=slug, quiet_seconds=quiet_seconds)
    for library in marked:
        try:
            await _Eraser(database, library["number"], erased, on_progress).erase()
        except _GoneError:
            continue
        log.info("library %s is erased", library["slug"])
    return erased


async def erase_forever(database: Database) -> None:
    """The background task of the server. What a command erases is left to it, unless it died."""
    while True:
        try:
            await erase_marked(database, quiet_seconds=QUIET_SECONDS)
        except LOST as error:
            log.debug("erasing libraries: the database is away: %s", error)
        except Exception:
            log.exception("erasing libraries failed")
        await asyncio.sleep(LOOK_SECONDS)


async def _check_in_trash(connection: Connection, slug: str) -> None:
    row = await lock_library(connection, slug, trash=True)
    if row["deleted_at"] is None:
        raise NotInTrashError(
            fix=f"`mediamill library remove {slug}` first: what is in the trash can be erased"
        )


class _Eraser:
    """One library on its way out."""

    def __init__(
        self, database: Database, number: int, erased: Erased, on_progress: OnProgress | None
    ) -> None:
        self._database, self._number = database, number
        self._erased, self._tell = erased, on_progress or (lambda _erased: None)

    async def erase(self) -> None:
        await self._until_none(self._purge_dead)
        after = ""
        while True:
            assets = await self._pick(after)
            if not assets and after == "":
                break
            after = (
                assets[-1]["rel_path"] if assets else ""
            )  # again from the start: some may have been passed over
            if assets:
                await self._erase_assets([row["id"] for row in assets])
        await self._until_none(self._erase_folders)
        await self._until_none(self._purge_dead)
        self._erased.libraries += await self._in_turn(self._erase_library)
        self._tell(self._erased)

    async def _pick(self, after: str) -> list[Record]:
        async with self._database.connection() as connection:
            return await queries.pick_assets.rows(connection, library=self._number, after=after, batch=BATCH)

    async def _erase_assets(self, ids: list[int]) -> None:
        """What hangs on them first, since that may be a hundred times as much."""
        await self._erase_parts(ids, queries.pick_vectors, queries.erase_vectors)
        self._erased.moments += await self._erase_parts(ids, queries.pick_scenes, queries.erase_scenes)
        self._erased.moments += await self._erase_parts(ids, queries.pick_frames, queries.erase_frames)

        self._erased.assets += await self._by_slices(ids, self._erase_some)
        self._tell(self._erased)

    async def _erase_some(self, ids: list[int], connection: Connection) -> int:
        gone = await queries.erase_assets.rows(connection, ids=ids, library=self._number)
        await forget_kept(connection, [row["job_id"] for row in gone if row["job_id"] is not None])
        return len(gone)

    async def _erase_parts(self, assets: list[int], pick: Query, erase: Query) -> int:
        total = 0
        while True:
            async with self._database.connection() as connection:
                ids = [row["id"] for row in await pick.rows(connection, assets=assets, batch=BATCH)]
            total += await self._by_slices(ids, lambda some, own: erase.run(own, ids=some))
            if len(ids) < BATCH:
                return total

    async def _by_slices(
        self, ids: list[int], erase: Callable[[list[int], Connection], Awaitable[int]]
    ) -> int:
        """How many were erased: a transaction for each slice, and after it, with nothing held, a rest for others."""
        total = 0
        for begin in range(0, len(ids), SLICE):
            began = time.monotonic()
            total += await self._in_turn(partial(erase, ids[begin : begin + SLICE]))
            rest = REST_FACTOR * (time.monotonic() - began)
            await asyncio.sleep(min(max(rest, REST_LEAST_SECONDS), REST_MOST_SECONDS))
        return total

    async def _erase_folders(self, connection: Connection) -> int:
        return await queries.erase_folders.run(connection, library=self._number, batch=BATCH)

    async def _purge_dead(self, connection: Connection) -> int:
        """What was given up, and what came back to the queue because its worker died."""
        owner = owner_of(self._number)
        await forget_owner(connection, owner)
        page = await browse_dead(connection, owner=owner, amount=BATCH, patient=True)
        dead = [job["id"] for job in page.jobs]
        await forget_kept(connection, dead)
        return len(await purge_dead(connection, dead))

    async def _erase_library(self, connection: Connection) -> int:
        await queries.tell_erased.run(connection, number=self._number)
        return await queries.erase_library.run(connection, number=self._number)

    async def _until_none(self, step: Callable[[Connection], Awaitable[int]]) -> int:
        total = 0
        while count := await self._in_turn(step):
            total += count
            if count < BATCH:
                break
        return total

    async def _in_turn(self, step: Callable[[Connection], Awaitable[int]]) -> int:
        """One transaction, for which the library's row is held."""
        while True:
            try:
                async with self._database.transaction() as connection:
                    await queries.be_gentle.run(connection)
                    if await queries.lock_erasing.value(connection, number=self._number) is None:
                        raise _GoneError
                    return await step(connection)
            except LockNotAvailableError:
                log.debug("library %d: somebody else is at it; again", self._number)
                await asyncio.sleep(REST_LEAST_SECONDS)
