"""Makes a backup while everything runs on.

Files are copied twice: first all of them, which may take hours and holds nobody up; then, with deletions held and the
database's snapshot taken, what came since. So every file that a row of the snapshot names is in the backup
([why](../../../docs/decisions/backup-order.md)). The manifest comes last, and then the name.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from mediamill import __version__
from mediamill.backup.copying import Pass, Progress, copy_again, copy_files
from mediamill.backup.database import Snapshot, dump_database, find_program, open_snapshot
from mediamill.backup.durable import hash_file
from mediamill.backup.model import DUMP, LISTING, ListingPart, Manifest, Part, write_manifest
from mediamill.backup.shelf import Shelf, open_shelf
from mediamill.storage.deletions import hold_deletions

T = TypeVar("T")
Show = Callable[[str, Progress], None]


@dataclass(frozen=True)
class Made:
    """A backup, and what it cost."""

    folder: Path
    manifest: Manifest
    copied_files: int
    copied_bytes: int


async def make_backup(
    url: str,
    data_folder: Path,
    destination: Path,
    *,
    files: bool = True,
    show: Show = lambda _what, _far: None,
) -> Made:
    """Into a new folder in `destination`. What did not change since the last backup there is not copied again."""
    async with open_snapshot(url) as snapshot:
        find_program("pg_dump", snapshot.server_version)  # before hours of copying
    with open_shelf(destination, data_folder) as shelf:
        maker = _Maker(url, data_folder, shelf, show)
        return await maker.make(files)


@dataclass
class _Maker:
    url: str
    data_folder: Path
    shelf: Shelf
    show: Show

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._copied = [0, 0]

    async def make(self, files: bool) -> Made:
        made = self.shelf.begin()
        if files:
            earlier = self.shelf.earlier(made)
            await self._copy("copying files", lambda far: copy_files(self.data_folder, made, earlier, far))
        with hold_deletions(self.data_folder) if files else nullcontext():
            async with open_snapshot(self.url) as snapshot:
                dumping = asyncio.create_task(self._dump(snapshot, made))
                try:
                    copied = await self._copy_again(made) if files else None
                finally:
                    if not dumping.done():
                        self.show("dumping the database", Progress())
                    dumped = (await asyncio.gather(dumping, return_exceptions=True))[0]
        if isinstance(dumped, BaseException):
            raise dumped
        manifest = _manifest(made, snapshot, dumped, copied)
        await self._in_thread(os.sync)  # once, instead of millions of times
        write_manifest(made, manifest)
        return Made(self.shelf.finish(made), manifest, *self._copied)

    async def _copy_again(self, made: Path) -> Pass:
        return await self._copy(
            "copying what came since", lambda far: copy_again(self.data_folder, made, far)
        )

    async def _copy(self, what: str, verb: Callable[[Progress], Pass]) -> Pass:
        progress = Progress(lambda far: self.show(what, far), self._stop)
        done = await self._in_thread(lambda: verb(progress))
        self._copied = [self._copied[0] + progress.copied_files, self._copied[1] + progress.copied_bytes]
        return done

    async def _dump(self, snapshot: Snapshot, made: Path) -> Part:
        size, digest = await self._in_thread(
            lambda: dump_database(self.url, snapshot, made / DUMP, self._stop)
        )
        return Part(bytes=size, sha256=digest)

    async def _in_thread(self, verb: Callable[[], T]) -> T:
        """A caller that goes away takes the thread along."""
        try:
            return await asyncio.to_thread(verb)
        except BaseException:
            self._stop.set()
            raise


def _manifest(made: Path, snapshot: Snapshot, dumped: Part, copied: Pass | None) -> Manifest:
    files = None
    if copied is not None:
        size, digest = hash_file(made / LISTING)
        files = ListingPart(bytes=size, sha256=digest, count=copied.count, total_bytes=copied.total_bytes)
    return Manifest(
        format=1,
        mediamill=__version__,
        made_at=datetime.now(UTC),
        schema_revision=snapshot.schema_revision,
        postgres=snapshot.server_version,
        database=dumped,
        files=files,
        left_out=copied.left_out if copied else [],
    )
