"""Watched folders: files that stayed as they are from one look to the next are taken in. The folder is only read."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence

from asyncpg import Record

from mediamill.db.connection import LOST, Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.recovery.sweep import take_turn
from mediamill.errors import MediamillError
from mediamill.intake.add import add_arrived
from mediamill.intake.analyse import lock_content
from mediamill.intake.folder import Listing, Seen, open_below, read_folder
from mediamill.intake.model import ERROR_CHARACTERS, clean_file_name
from mediamill.intake.projects import share_project
from mediamill.intake.receive import Arrived, ChangedFileError, read_chunks, receive_file
from mediamill.intake.store import queries
from mediamill.settings import Settings

log = logging.getLogger(__name__)

MOST_TAKEN = 200  # of one folder in one round, so that the others have their turn
MOST_TROUBLES = 5


async def look_at_folders(database: Database, enqueuer: Enqueuer, settings: Settings) -> int:
    """One round over all projects that watch a folder; how many files were taken in."""
    async with database.connection() as connection:
        projects = await queries.watched_projects.rows(connection)
    return sum([await _Look(database, enqueuer, settings, project).look() for project in projects])


async def watch_folders_forever(database: Database, enqueuer: Enqueuer, settings: Settings) -> None:
    """The background task of the server. Of several servers one looks at a time."""
    while True:
        try:
            if await take_turn(database, "intake_watch_turn", settings.intake_watch_seconds):
                await look_at_folders(database, enqueuer, settings)
        except LOST as error:
            log.debug("watched folders: the database is away: %s", error)
        except Exception:
            log.exception("looking at watched folders failed")
        await asyncio.sleep(settings.intake_watch_seconds)


class _Look:
    """One look at one project's folder."""

    def __init__(self, database: Database, enqueuer: Enqueuer, settings: Settings, project: Record) -> None:
        self._database, self._enqueuer, self._settings = database, enqueuer, settings
        self._project, self._path = project, str(project["watch_path"])
        self._troubles: list[str] = []

    async def look(self) -> int:
        """How many files were taken in. Whatever cannot be read is told, and tried again at the next look."""
        taken = 0
        try:
            listing = await asyncio.to_thread(read_folder, self._path, str(self._settings.data_folder))
        except OSError as error:
            self._troubles = [f"{self._path}: {error.strerror or error}"]
        else:
            taken = await self._take_settled(listing)
            self._troubles = [*listing.trouble, *self._troubles]
        await self._tell()
        return taken

    async def _take_settled(self, listing: Listing) -> int:
        """Those that are as they were at the last look, and were not taken; the others are noted for the next one."""
        async with self._database.connection() as connection:
            rows = await queries.known_paths.rows(
                connection, project=self._project["id"], paths=[seen.rel_path for seen in listing.files]
            )
        known = {row["rel_path"]: row for row in rows}
        settled = [seen for seen in listing.files if _is_as_before(seen, known.get(seen.rel_path))]
        await self._note([seen for seen in listing.files if seen not in set(settled)])
        waiting = [seen for seen in settled if not known[seen.rel_path]["taken"]]
        taken = 0
        for seen in waiting[:MOST_TAKEN]:
            taken += await self._take(seen)
        return taken

    async def _note(self, seen: Sequence[Seen]) -> None:
        if seen:
            async with self._database.connection() as connection:
                await queries.note_seen.run(
                    connection,
                    project=self._project["id"],
                    paths=[one.rel_path for one in seen],
                    times=[one.mtime_ns for one in seen],
                    sizes=[one.size for one in seen],
                )

    async def _take(self, seen: Seen) -> int:
        """0: it cannot be read now, it is still changing, or it has the content that it had before."""
        try:
            descriptor = await asyncio.to_thread(open_below, self._path, seen.rel_path)
            try:
                chunks = read_chunks(descriptor, (seen.mtime_ns, seen.size))
                async with receive_file(self._settings, chunks, seen.size) as arrived:
                    return await self._add(seen, arrived)
            finally:
                os.close(descriptor)
        except ChangedFileError:
            return 0
        except MediamillError as error:
            self._troubles.append(f"{clean_file_name(seen.rel_path)}: {error.message}")
            return 0

    async def _add(self, seen: Seen, arrived: Arrived) -> int:
        """The file, and that it was taken, in one transaction: neither a crash nor another server takes it twice."""
        where = {"project": self._project["id"], "path": seen.rel_path}
        async with self._database.transaction() as connection:
            await lock_content(connection, arrived.content.sha256)
            await share_project(connection, self._project["slug"])
            waiting = await queries.lock_watched.row(
                connection, **where, mtime_ns=seen.mtime_ns, size=seen.size
            )
            if waiting is None:
                return 0
            file_id = None
            if waiting["before"] != arrived.content.sha256:
                file_id = await self._add_file(connection, seen, arrived)
            await queries.note_taken.run(connection, **where, file=file_id)
        return int(file_id is not None)

    async def _add_file(self, connection: Connection, seen: Seen, arrived: Arrived) -> int:
        name = clean_file_name(seen.rel_path)
        project = self._project["slug"]
        return await add_arrived(connection, self._enqueuer, self._settings, project, name, arrived, "watch")

    async def _tell(self) -> None:
        error = "; ".join(dict.fromkeys(self._troubles[:MOST_TROUBLES]))[:ERROR_CHARACTERS]
        error = error.encode("utf-8", "replace").decode()
        async with self._database.connection() as connection:
            await queries.note_looked.run(
                connection, id=self._project["id"], watch_path=self._path, error=error or None
            )


def _is_as_before(seen: Seen, known: Record | None) -> bool:
    return known is not None and (known["mtime_ns"], known["size"]) == (seen.mtime_ns, seen.size)
