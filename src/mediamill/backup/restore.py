"""Brings a backup into an empty data folder and an empty database, all of it or nothing.

A marker in the data folder says that a restore is under way; with it, nothing else of mediamill starts there. Files
come first, then the database in one transaction: that is the moment from which the data is there. Whoever is killed
before leaves the marker, and the same command goes on from what is there.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

from mediamill.backup.copying import Progress, receive_file
from mediamill.backup.database import LOADING, find_program, load_database
from mediamill.backup.durable import hash_file
from mediamill.backup.listing import read_listing
from mediamill.backup.marker import put_marker, read_marker, take_marker_away
from mediamill.backup.model import DUMP, LISTING, Entry, Manifest, read_manifest
from mediamill.backup.store import queries
from mediamill.backup.verify import check_listing, check_part, source_of
from mediamill.backup.walk import walk
from mediamill.db import file_lock
from mediamill.db.connection import Connection, RawConnection, connect
from mediamill.db.migrate import check_known, upgrade
from mediamill.errors import ConflictError

LOCK, PART = "restore.lock", "restore.part"
Show = Callable[[str, Progress], None]
Afterwards = Callable[[Connection], Awaitable[object]]


class NotEmptyError(ConflictError):
    """There is something here already."""

    code = "not_empty"


class NoRoomError(ConflictError):
    """The disk has no room for the backup."""

    code = "no_room"


class OlderServerError(ConflictError):
    """The backup comes from a newer PostgreSQL."""

    code = "older_server"


class RestoreAtWorkError(ConflictError):
    """A restore is under way here."""

    code = "restore_at_work"


async def restore_backup(
    database: AbstractAsyncContextManager[str],
    data_folder: Path,
    folder: Path,
    *,
    afterwards: Sequence[Afterwards] = (),
    show: Show = lambda _what, _far: None,
) -> Manifest:
    """The backup in this folder. `afterwards` is done once the rows are there, before anything else may run."""
    manifest = read_manifest(folder)
    check_known(manifest.schema_revision, "the backup")
    with _alone(data_folder):
        goes_on = _goes_on(data_folder, manifest)
        if manifest.files is not None and not goes_on:
            await asyncio.to_thread(_check_no_files, data_folder)
        async with database as url:
            await _Restore(url, data_folder, folder, manifest, show).run(goes_on, afterwards)
    return manifest


@contextmanager
def _alone(data_folder: Path) -> Iterator[None]:
    data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = file_lock.open_lock(data_folder / LOCK)
    try:
        if not file_lock.try_exclusive(lock):
            raise RestoreAtWorkError(f"a restore into {data_folder} is under way", fix="wait for its end")
        yield
    finally:
        file_lock.release(lock)


class _Restore:
    def __init__(self, url: str, data_folder: Path, folder: Path, manifest: Manifest, show: Show) -> None:
        self._url, self._data, self._folder = url, data_folder, folder
        self._manifest, self._show = manifest, show

    async def run(self, goes_on: bool, afterwards: Sequence[Afterwards]) -> None:
        loaded = await self._look(goes_on)
        await self._in_thread("checking", lambda _: check_part(self._folder / DUMP, self._manifest.database))
        await self._in_thread("checking", lambda _: check_listing(self._folder, self._manifest))
        if not goes_on:  # then some of it is there
            _check_room(self._data, self._manifest)
        put_marker(self._data, self._folder, self._manifest.seal)
        if self._manifest.files is not None:
            await self._in_thread("copying files", self._copy_files)
        if not loaded:
            version = await self._server_version()
            await self._in_thread(
                "loading the database",
                lambda far: load_database(self._url, version, self._folder / DUMP, self._manifest.seal, far),
            )
        self._show("bringing the schema up to date", Progress())
        await upgrade(self._url)
        await self._finish(afterwards)
        (self._data / PART).unlink(missing_ok=True)
        take_marker_away(self._data)

    async def _look(self, goes_on: bool) -> bool:
        """Is the database empty? Or, if a restore goes on, are the rows there already?"""
        connection = await connect(self._url, name="mediamill")
        try:
            _check_server(connection, self._manifest)
            if goes_on:
                await queries.end_loading.rows(connection, name=LOADING)
            if await queries.is_empty.value(connection):
                return False
            if goes_on and await queries.loaded_from.value(connection) == self._manifest.seal:
                return True
        finally:
            await connection.close()
        raise NotEmptyError(
            "the database is not empty",
            fix="restore into a new one: another MEDIAMILL_DATA, or a new database for MEDIAMILL_DATABASE_URL",
        )

    async def _server_version(self) -> int:
        connection = await connect(self._url, name="mediamill")
        try:
            return connection.get_server_version().major
        finally:
            await connection.close()

    async def _finish(self, afterwards: Sequence[Afterwards]) -> None:
        connection = await connect(self._url, name="mediamill")
        try:
            async with connection.transaction():
                for verb in afterwards:
                    await verb(connection)
            await queries.analyze.run(connection)
        finally:
            await connection.close()

    def _copy_files(self, progress: Progress) -> None:
        for entry in read_listing(self._folder / LISTING):
            target = self._data.joinpath(*entry.parts)
            if _is_there(target, entry):
                progress.add(entry.bytes, copied=False)
            else:
                receive_file(source_of(self._folder, entry), target, self._data / PART, entry, progress)
            progress.files += 1
        os.sync()  # before the rows that name them

    async def _in_thread(self, what: str, verb: Callable[[Progress], None]) -> None:
        progress = Progress(lambda far: self._show(what, far))
        self._show(what, progress)
        try:
            await asyncio.to_thread(verb, progress)
        except BaseException:
            progress.stop.set()
            raise


def _goes_on(data_folder: Path, manifest: Manifest) -> bool:
    marker = read_marker(data_folder)
    if marker is None:
        return False
    if marker["seal"] != manifest.seal:
        raise NotEmptyError(
            f"{data_folder} holds half of another backup",
            fix=f"run that restore again: mediamill restore {marker['backup']}; or choose another MEDIAMILL_DATA",
        )
    return True


def _check_no_files(data_folder: Path) -> None:
    found = next(walk(data_folder, []), None)
    if found is not None:
        raise NotEmptyError(
            f"the data folder is not empty: it holds {'/'.join(found.parts)}",
            fix="restore into a new one: set MEDIAMILL_DATA to a folder that is not there yet",
        )


def _check_room(data_folder: Path, manifest: Manifest) -> None:
    """Before hours of copying, and before a stranger's backup fills the disk."""
    wanted, free = manifest.files.total_bytes if manifest.files else 0, shutil.disk_usage(data_folder).free
    if wanted > free:
        raise NoRoomError(
            f"the files of the backup are {wanted} bytes, and only {free} bytes are free for {data_folder}",
            fix="free some space, or set MEDIAMILL_DATA to a folder on a larger disk",
        )


def _check_server(connection: RawConnection, manifest: Manifest) -> None:
    version = connection.get_server_version().major
    find_program("pg_restore", version)
    if version < manifest.postgres:
        raise OlderServerError(
            f"the backup comes from PostgreSQL {manifest.postgres}, this server is PostgreSQL {version}",
            fix=f"restore into PostgreSQL {manifest.postgres} or newer",
        )


def _is_there(target: Path, entry: Entry) -> bool:
    """By an earlier try; every byte is looked at, since a machine may have lost its power meanwhile."""
    try:
        return target.lstat().st_size == entry.bytes and hash_file(target) == (entry.bytes, entry.sha256)
    except OSError:
        return False
