"""Once more: files that failed, that are to be read with other fields or by others, or that are wanted anew."""

from __future__ import annotations

from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import Priority
from mediamill.engine.priority import set_priority
from mediamill.intake.analyse import Content, find_analysis, lock_content, wish_of
from mediamill.intake.attach import settle_files
from mediamill.intake.findable import forget_findable
from mediamill.intake.look import find_file, show_file
from mediamill.intake.model import STATES, BadListError, UnknownFileError
from mediamill.intake.orphans import drop_orphans
from mediamill.intake.projects import find_project
from mediamill.intake.store import queries
from mediamill.settings import Settings

BATCH = 500
FINISHED = "it is finished and up to date"
WAITS = "it is being analysed already"


async def reprocess(
    connection: Connection,
    enqueuer: Enqueuer,
    settings: Settings,
    file_id: int,
    *,
    force: bool = False,
    priority: Priority = Priority.NORMAL,
) -> dict[str, Any]:
    """`done`: the file has another analysis now; `why` says what happened, or why nothing did.

    A finished file that is up to date is left alone, unless that is forced. What a person decided stays in any case.
    """
    file = await find_file(connection, file_id)
    await lock_content(connection, file["sha256"])
    await queries.lock_analyses_of_content.rows(connection, sha256=file["sha256"])
    file = await find_file(connection, file_id)  # as it is now that nobody else changes it
    content = Content(file["sha256"], file["bytes"], file["mime_type"])
    wish = await wish_of(connection, settings, file["project_id"], file["name"], file["category"])
    current = (file["catalog"], file["extractor"]) == (wish.catalog, wish.extractor)
    if current and file["state"] != "failed" and not (force and file["state"] == "completed"):
        why = FINISHED if file["state"] == "completed" else WAITS
        return {"file": await show_file(connection, settings, file_id), "done": False, "why": why}
    after = file["generation"] if force and current else 0 if force else None
    analysis = await find_analysis(connection, enqueuer, content, wish, after=after, priority=priority)
    await move_file(connection, file, analysis)
    shown = await show_file(connection, settings, file_id)
    return {"file": shown, "done": True, "why": _why(file, analysis, current)}


async def reprocess_project(
    database: Database,
    enqueuer: Enqueuer,
    settings: Settings,
    slug: str,
    *,
    state: str | None = None,
    force: bool = False,
) -> dict[str, int]:
    """All files of a project, or those in this state; a transaction for each. How many there are, and were started.

    At low priority, so that a new file does not wait for all of them.
    """
    if state is not None and state not in STATES:
        raise BadListError(f"there is no state {state[:50]!r}", fix=f"there are {', '.join(STATES)}")
    async with database.connection() as connection:
        project = await find_project(connection, slug)
    total = started = after = 0
    while True:
        async with database.connection() as connection:
            rows = await queries.files_after.rows(
                connection, project=project["id"], after=after, state=state, batch=BATCH
            )
        for row in rows:
            started += await _again(database, enqueuer, settings, row["id"], force=force)
        total += len(rows)
        if len(rows) < BATCH:
            return {"files": total, "started": started}
        after = rows[-1]["id"]


async def set_file_priority(connection: Connection, file_id: int, priority: Priority) -> None:
    """How soon its analysis is made, and with it that of all files of the same content."""
    file = await find_file(connection, file_id)
    await set_priority(connection, [file["job_id"]], priority)


async def delete_file(connection: Connection, file_id: int) -> None:
    """With what was decided about it. Its bytes go with the last file that has them."""
    while True:
        file = await find_file(connection, file_id)
        await queries.lock_analyses.rows(connection, ids=[file["analysis_id"]])
        gone = await queries.delete_file.value(connection, id=file_id, analysis=file["analysis_id"])
        if gone is not None:
            break  # else it has just got another analysis, or is gone
    await drop_orphans(connection, [file["analysis_id"]])
    await forget_findable(connection, file["project_id"], file_id)
    await queries.tell_gone.run(connection, id=file_id, project=file["slug"])


async def _again(
    database: Database, enqueuer: Enqueuer, settings: Settings, file_id: int, *, force: bool
) -> bool:
    try:
        async with database.transaction() as connection:
            made = await reprocess(
                connection, enqueuer, settings, file_id, force=force, priority=Priority.LOW
            )
            return bool(made["done"])
    except UnknownFileError:  # deleted meanwhile
        return False


async def move_file(connection: Connection, file: Record, analysis: Record) -> None:
    """The file has this analysis from now on; one that no file has any more goes."""
    if await queries.move_file.run(connection, id=file["id"], analysis=analysis["id"]) == 0:
        raise UnknownFileError(f"there is no file {file['id']} (any more)")
    await settle_files(connection, analysis, [file["id"]])
    await drop_orphans(connection, [file["analysis_id"]])


def _why(file: Record, analysis: Record, current: bool) -> str:
    if analysis["state"] == "completed":
        return "a file of the same content has been analysed like that already"
    if not current:
        return "it is analysed with the fields and by the extractor of now"
    return "it failed, and is tried again" if file["state"] == "failed" else "it is analysed anew"
