"""Going on with a file of which pages were left out: what was read is taken over, only the rest is read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import Moved
from mediamill.errors import ConflictError
from mediamill.intake.again import move_file
from mediamill.intake.analyse import Content, add_analysis, lock_content, wish_of
from mediamill.intake.look import find_file, show_file
from mediamill.intake.result import Analysed
from mediamill.intake.store import queries
from mediamill.settings import Settings
from mediamill.staging.kept import Kept, adopt_files, forget_kept, kept_folder, list_kept
from mediamill.storage.choose import Place, storage_at, storage_of


class NothingLeftError(ConflictError):
    """All pages of the file were read, or it is being analysed."""

    code = "nothing_left"


async def keep_pages(connection: Connection, place: Place, job: Moved, made: Analysed) -> None:
    """Pages that were read stay with the analysis only if others were not."""
    if made.output and made.told["facts"].get("unread"):
        kept = await list_kept(connection, place, job.job_id)
        names = [one.name for one in kept]
        await storage_at(place).link_files(connection, kept_folder(job.job_id), made.output, names)
        told = json.dumps([asdict(one) for one in kept])
        await queries.note_kept.run(connection, id=int(job.subject_id or 0), kept=told)
    await forget_kept(connection, [job.job_id])
    await storage_at(place).drop(connection, kept_folder(job.job_id))


async def read_on(
    connection: Connection, enqueuer: Enqueuer, settings: Settings, file_id: int
) -> dict[str, Any]:
    """The file with an analysis that reads as many pages more, and tries those again that were left out."""
    file = await find_file(connection, file_id)
    await lock_content(connection, file["sha256"])
    await queries.lock_analyses_of_content.rows(connection, sha256=file["sha256"])
    file = await find_file(connection, file_id)  # as it is now that nobody else changes it
    result = json.loads(file["result"])
    if file["state"] != "completed" or not result.get("facts", {}).get("unread"):
        raise NothingLeftError(
            "there is nothing left to read", fix="mediamill intake file ID shows its state"
        )
    content = Content(file["sha256"], file["bytes"], file["mime_type"])
    wish = await wish_of(connection, settings, file["project_id"], file["name"], file["category"])
    rounds = int(result.get("rounds", 1)) + 1
    analysis = await add_analysis(connection, enqueuer, content, wish, rounds=rounds)
    before = await queries.kept_of_analysis.row(connection, id=file["analysis_id"])
    if before is not None and before["output"] and before["kept"]:
        kept = [Kept(**one) for one in json.loads(before["kept"])]
        await adopt_files(connection, storage_of(settings), analysis["job_id"], before["output"], kept)
    await move_file(connection, file, analysis)
    return await show_file(connection, settings, file_id)
