"""A scan: the folders that are there and those that are known, side by side, in one order.

A folder whose files have the digest that is known writes nothing and reads no rows. New folders of a library that
had no assets go straight into the table. Of other folders the files are laid beside their rows. A known folder that
the walk has passed by is gone, and its assets are marked; but what cannot be read, or was a mount and is empty now,
is left alone with everything inside. Many folders are one transaction, which also notes how far the scan has come.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator
from functools import partial

from asyncpg import Record

from mediamill.db.connection import Database
from mediamill.errors import MediamillError
from mediamill.libraries.known_folders import KnownFolders
from mediamill.libraries.reach import in_own_thread
from mediamill.libraries.renames import keep_renamed
from mediamill.libraries.scan_batch import ScanBatch
from mediamill.libraries.scan_model import ScanCounts, ScanFailedError, ScanLostError, ScanRefusedError
from mediamill.libraries.scan_state import (
    ScanClaim,
    again_if_deadlocked,
    beat,
    begin_scan,
    finish_scan,
    hold_scan,
    stop_scan,
)
from mediamill.libraries.store import queries
from mediamill.libraries.walk import Listing, identify, is_inside, key_of, walk
from mediamill.settings import Settings
from mediamill.staging.file_names import shown

BATCH_FILES, BATCH_FOLDERS = 20_000, 1000
READ_SECONDS = 1.0  # so long folders are read before somebody is told
BEAT_SECONDS = 10.0
TELL_SECONDS = 2.0

OnProgress = Callable[[ScanCounts], None]


async def scan_library(
    database: Database,
    settings: Settings,
    slug: str,
    on_progress: OnProgress | None = None,
    accept_empty: bool = False,
) -> ScanCounts:
    """Once through the library's folder. `accept_empty`: what looks as if it were not mounted is empty indeed."""
    claim = await begin_scan(database, slug)
    try:
        counts = await _Scan(database, settings, claim, on_progress, accept_empty).run()
        await finish_scan(database, claim, counts)
        return counts
    except ScanLostError:
        raise
    except BaseException as error:
        told = error.message if isinstance(error, MediamillError) else None
        if isinstance(error, Exception) and told is None:
            told = f"{type(error).__name__}: {error}"
        await asyncio.shield(stop_scan(database, claim, told))
        raise


class _Scan:
    """One run."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        claim: ScanClaim,
        on_progress: OnProgress | None,
        accept_empty: bool,
    ) -> None:
        self._database, self._claim, self._accept_empty = database, claim, accept_empty
        self._on_progress = on_progress or (lambda _: None)
        self._own = identify(str(settings.data_folder))
        self._walk = walk(claim.root, claim.after, self._own)
        self._known = KnownFolders(database, claim.number, claim.after)
        self._above: list[tuple[str, int]] = []  # key and id of each folder that the present one is in
        self._known_above: dict[str, Record] = {}  # the root, and those that a run before this one has passed
        self._left_alone: str | None = None  # the key of a folder of which everything stays as it is
        self._ids: list[int] = []
        self._counts, self._batch, self._last = claim.counts, ScanBatch(), claim.after or ""
        self._told_at = self._written_at = time.monotonic()

    async def run(self) -> ScanCounts:
        """To the end."""
        await self._read_above()
        while listings := await self._read():
            for listing in listings:
                await self._meet(listing)
                if self._batch.files >= BATCH_FILES or self._batch.folders >= BATCH_FOLDERS:
                    await self._write()
            await self._write()
        await self._pass_by(None)
        await self._write()
        await keep_renamed(self._database, self._claim, self._counts, self._last)
        return self._counts

    async def _read_above(self) -> None:
        after = self._claim.after or ""
        paths = ["", *(after[:place] for place, letter in enumerate(after) if letter == "/"), after]
        async with self._database.connection() as connection:
            rows = await queries.folders_by_path.rows(connection, library=self._claim.number, paths=paths)
        self._known_above = {row["rel_path"]: row for row in rows}

    async def _read(self) -> list[Listing]:
        """Some folders, in a thread, since a folder far away may take its time; meanwhile others see that we live."""
        reading = in_own_thread(partial(_take, self._walk))
        while not reading.done():
            await asyncio.wait({reading}, timeout=BEAT_SECONDS)
            if not reading.done():
                await beat(self._database, self._claim)
        return reading.result()

    async def _meet(self, listing: Listing) -> None:
        """One folder that is there, after all known ones that come before it."""
        key = key_of(listing.rel_path)
        known = await self._pass_by(key) if listing.rel_path else None
        known = known or self._known_above.get(listing.rel_path)
        if not listing.rel_path:
            await self._check_root(listing, known)
        if self._is_left_alone(listing, known):
            self._left_alone = key
            return
        while self._above and not key.startswith(self._above[-1][0]):
            self._above.pop()
        folder = known["id"] if known is not None else await self._new_id()
        if not listing.passed:
            self._note(listing, known, folder)
            self._last = listing.rel_path
        self._above.append((key, folder))

    async def _pass_by(self, key: str | None) -> Record | None:
        """Known folders before this one are gone; the one itself, if it is known. None: all that are left."""
        while (known := await self._known.peek()) is not None:
            if key is not None and known["key"] >= key:
                return self._known.take() if known["key"] == key else None
            self._known.take()
            if self._left_alone is not None and known["key"].startswith(self._left_alone):
                continue
            if known["is_mount"] and not self._accept_empty:
                self._left_alone = known["key"]
                self._leave(known["rel_path"], "was a mount and is not there: is it unmounted?")
                continue
            self._batch.gone.append(known["id"])
            self._last = known["rel_path"]
            if self._batch.folders >= BATCH_FOLDERS:
                await self._write()
        return None

    async def _check_root(self, root: Listing, known: Record | None) -> None:
        """A folder that is not there, or not mounted, is no reason to think that all is deleted."""
        path = self._claim.root
        if root.trouble is not None:
            raise ScanFailedError(f"{path} cannot be read: {root.trouble}", fix="is it there, and mounted?")
        if is_inside(path, self._own):  # previews of previews of previews
            raise ScanRefusedError(f"{path} is in mediamill's own data folder", fix="choose another folder")
        unmounted = known is not None and known["is_mount"] and not root.is_mount
        if self._accept_empty or not (root.is_empty or unmounted):
            return
        async with self._database.connection() as connection:
            if await queries.has_assets.value(connection, library=self._claim.number):
                raise ScanRefusedError(
                    f"{path} {'is empty' if root.is_empty else 'was a mount and is none now'}; nothing was marked",
                    fix=f"mount it; or, if that is so, mediamill scan {self._claim.slug} --accept-empty",
                )

    def _is_left_alone(self, listing: Listing, known: Record | None) -> bool:
        if listing.trouble is not None:
            self._counts.unreadable += 1
            self._leave(listing.rel_path, f"cannot be read: {listing.trouble}")
            return True
        was_mount = known is not None and known["is_mount"] and not listing.is_mount
        if listing.rel_path and was_mount and listing.is_empty and not self._accept_empty:
            self._leave(listing.rel_path, "was a mount and is an empty folder: is it unmounted?")
            return True
        return False

    def _leave(self, rel_path: str, why: str) -> None:
        self._counts.left_alone += 1
        self._counts.warn(f"{shown(rel_path)} {why}")

    def _note(self, listing: Listing, known: Record | None, folder: int) -> None:
        """What has to be written for it, if anything."""
        counts, files = self._counts, listing.count
        counts.folders += 1
        counts.files += files
        counts.links += listing.links
        counts.others += listing.others
        if listing.too_long:
            counts.too_long += listing.too_long
            counts.warn(f"{shown(listing.rel_path)} has {listing.too_long} of too long a path; left out")
        if known is not None and known["digest"] == listing.digest and known["is_mount"] == listing.is_mount:
            counts.unchanged += files
            return
        batch = self._batch
        if known is None:
            batch.added.append((folder, self._above[-1][1] if self._above else None, listing))
        else:
            batch.changed.append((folder, listing))
        batch.files += files
        if self._claim.newest == 0 and known is None:
            batch.copied.append((folder, listing))
        else:
            batch.compared[folder] = listing

    async def _new_id(self) -> int:
        if not self._ids:
            async with self._database.connection() as connection:
                rows = await queries.take_folder_ids.rows(connection, amount=BATCH_FOLDERS)
            self._ids = [row[0] for row in reversed(rows)]
        return self._ids.pop()

    async def _write(self) -> None:
        """One transaction."""
        batch, self._batch = self._batch, ScanBatch()
        now = time.monotonic()
        if batch.folders or now - self._written_at >= READ_SECONDS:
            await again_if_deadlocked(lambda: self._try_to_write(batch, now))
            self._written_at = now
        self._on_progress(self._counts)

    async def _try_to_write(self, batch: ScanBatch, now: float) -> None:
        claim, counts = self._claim, dataclasses.replace(self._counts)
        tell = now - self._told_at >= TELL_SECONDS
        async with self._database.transaction() as connection:
            await hold_scan(connection, claim)
            await batch.write(connection, claim, counts)
            told = claim.told(counts)
            await queries.note_scan.run(connection, number=claim.number, scan_at=self._last, counts=told)
            if tell:
                await queries.tell.run(connection, number=claim.number)
        self._counts = counts
        self._told_at = now if tell else self._told_at


def _take(listings: Iterator[Listing]) -> list[Listing]:
    """As many as make one batch, or as can be read in a while; none at the end."""
    taken: list[Listing] = []
    files, until = 0, time.monotonic() + READ_SECONDS
    for listing in listings:
        taken.append(listing)
        files += listing.count
        if files >= BATCH_FILES or len(taken) >= BATCH_FOLDERS or time.monotonic() >= until:
            break
    return taken
