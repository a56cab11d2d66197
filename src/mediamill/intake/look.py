"""Looking at the files of projects: the list, one with all there is to know of it, and its pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.priority import priority_name
from mediamill.intake.fields import read_fields
from mediamill.intake.model import (
    DECISIONS,
    STATES,
    BadListError,
    NoSuchPageError,
    UnknownFileError,
    blob_name,
    catalog_of,
    fields_for,
)
from mediamill.intake.pages import MOST_ID, check_amount, read_cursor
from mediamill.intake.projects import find_project
from mediamill.intake.proposals import plain_found, plain_proposal
from mediamill.intake.store import queries
from mediamill.processors.intake.extractor import extractor_name
from mediamill.processors.page_spans import pages_not_read
from mediamill.settings import Settings

_HIDDEN = ("project_id", "analysis_id", "catalog", "result", "output", "text")


async def list_files(
    connection: Connection,
    settings: Settings,
    slug: str,
    *,
    state: str | None = None,
    after: str | None = None,
    amount: int = 100,
) -> dict[str, Any]:
    """Newest first. `next` goes on where this page ends; None at the end."""
    if state is not None and state not in STATES:
        raise BadListError(f"there is no state {state[:50]!r}", fix=f"there are {', '.join(STATES)}")
    amount = check_amount(amount)
    project = await find_project(connection, slug)
    rows = await queries.list_files.rows(
        connection, project=project["id"], state=state, before=read_cursor(after, MOST_ID), amount=amount + 1
    )
    shown = rows[:amount]
    files = await _told(connection, settings, project["id"], shown)
    return {"files": files, "next": str(shown[-1]["id"]) if len(rows) > amount else None}


async def show_file(connection: Connection, settings: Settings, file_id: int) -> dict[str, Any]:
    """One file, its text and pages, and everything that was proposed."""
    row = await queries.show_file.row(connection, id=file_id)
    if row is None:
        raise UnknownFileError(f"there is no file {file_id}", fix="mediamill intake files PROJECT lists them")
    result = json.loads(row["result"])
    (told,) = await _told(connection, settings, row["project_id"], [row])
    proposals = await queries.proposals_of_file.rows(connection, file=file_id)
    return {
        **told,
        "priority": priority_name(row["priority"]),
        "text": row["text"],
        "pages": result.get("pages", []),
        "models": result.get("models", []),
        "tags": result.get("tags", []),
        "facts": result.get("facts", {}),
        "proposals": [plain_proposal(proposal) for proposal in proposals],
        "unmapped": [
            plain_found(each) for each in await queries.findings_of_file.rows(connection, file=file_id)
        ],
    }


async def file_states(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """State and error of many; those that are gone are not in it."""
    rows = await queries.file_states.rows(connection, ids=list(ids))
    return {row["id"]: {"state": row["state"], "error": row["error"]} for row in rows}


async def names_of_analyses(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The file that an analysis is of: id, name and project."""
    rows = await queries.names_of_analyses.rows(connection, analyses=list(ids))
    return {row["analysis_id"]: dict(row) for row in rows}


async def with_thumbnail(connection: Connection, ids: Sequence[int]) -> list[int]:
    """Of these files, those that have a small picture."""
    return [row["id"] for row in await queries.with_thumbnail.rows(connection, ids=list(ids))]


async def page_texts(connection: Connection, file_id: int) -> list[dict[str, Any]]:
    """What is written on each page: number, label and text."""
    texts = await queries.page_texts.value(connection, id=file_id)
    return list(json.loads(texts)) if texts else []


async def file_source(connection: Connection, file_id: int) -> tuple[str, str, str]:
    """The name under which its bytes are stored, what they are, and what it is called."""
    row = await find_file(connection, file_id)
    return blob_name(row["sha256"]), row["mime_type"], row["name"]


async def page_image(connection: Connection, file_id: int, number: int) -> str:
    """The picture of a page, by the name under which it is stored."""
    row = await find_file(connection, file_id)
    pages = json.loads(row["result"]).get("pages", [])
    image = next((page["image"] for page in pages if page["number"] == number), None)
    if image is None or row["output"] is None:
        raise NoSuchPageError(f"there is no picture of page {number} of this file")
    return f"{row['output']}/{image}"


async def thumbnail(connection: Connection, file_id: int) -> str:
    """The small picture."""
    row = await find_file(connection, file_id)
    if row["output"] is None or not json.loads(row["result"]).get("thumbnail"):
        raise NoSuchPageError("there is no small picture of this file")
    return f"{row['output']}/thumbnail.jpg"


async def find_file(connection: Connection, file_id: int) -> Record:
    """The row, with that of its analysis."""
    row = await queries.find_file.row(connection, id=file_id)
    if row is None:
        raise UnknownFileError(f"there is no file {file_id}", fix="mediamill intake files PROJECT lists them")
    return row


async def _told(
    connection: Connection, settings: Settings, project_id: int, rows: Sequence[Record]
) -> list[dict[str, Any]]:
    fields, extractor = await read_fields(connection, project_id), extractor_name(settings)
    catalogs = {row["category"]: catalog_of(fields_for(fields, row["category"])) for row in rows}
    counts = {row["id"]: dict.fromkeys(DECISIONS, 0) for row in rows}
    for row in await queries.count_proposals.rows(connection, files=list(counts)):
        counts[row["file_id"]][row["state"]] = row["proposals"]
    return [_plain(row, counts[row["id"]], (catalogs[row["category"]], extractor)) for row in rows]


def _plain(row: Record, counts: dict[str, int], current: tuple[bytes, str]) -> dict[str, Any]:
    """The row, its JSON read, without the long texts."""
    result = json.loads(row["result"])
    return {
        **{name: value for name, value in row.items() if name not in _HIDDEN},
        "kind": result.get("kind"),
        "unsupported": result.get("unsupported"),
        "unread": _unread(result.get("facts", {}).get("unread")),
        "thumbnail": bool(result.get("thumbnail")),
        **tell_category(row, result.get("facts", {}).get("document_kind")),
        "outdated": (row["catalog"], row["extractor"]) != current,
        "counts": counts,
    }


def tell_category(row: Record, guessed: str | None) -> dict[str, str | None]:
    """The category of a file, and who says so."""
    if row["category"]:
        return {"category": row["category"], "category_by": row["category_by"]}
    return {"category": guessed, "category_by": "guess" if guessed else None}


def _unread(spans: Any) -> str | None:
    """Which pages were left out, in words; what a worker told may be anything."""
    told = spans if isinstance(spans, list) else []
    good = [
        one for one in told if isinstance(one, list) and len(one) == 2 and all(type(n) is int for n in one)
    ]
    words = pages_not_read(good) if good else ""
    return words[:1].upper() + words[1:] or None
