"""What a file is found by: its name, its summary, and the text of each of its pages."""

from __future__ import annotations

import json

from asyncpg import Record

from mediamill.db.connection import Connection, Database
from mediamill.intake.store import queries
from mediamill.search.entries import (
    BODY_CHARACTERS,
    TITLE_CHARACTERS,
    Entry,
    drop_entries,
    list_subjects,
    put_entries,
    titles_of,
)

SOURCE = "file"
BATCH = 500
MOST_PAGES = 500


async def note_findable(connection: Connection, file_id: int) -> None:
    """As it is now, once it is analysed."""
    row = await queries.findable_file.row(connection, id=file_id)
    if row is not None:
        await put_entries(connection, SOURCE, subject_of(row["project_id"], file_id), _entries(row))


async def forget_findable(connection: Connection, project_id: int, file_id: int) -> None:
    """A file that is gone."""
    await drop_entries(connection, SOURCE, subject_of(project_id, file_id))


async def fill_findable(database: Database, batch: int = BATCH) -> int:
    """Files that are not found though they are analysed, and such as are found though they are gone. How many."""
    return await _add_missing(database, batch) + await _drop_lost(database, batch)


async def _add_missing(database: Database, batch: int) -> int:
    put, after = 0, 0
    while True:
        async with database.transaction() as connection:
            rows = await queries.findable_after.rows(connection, after=after, batch=batch)
            subjects = {row["id"]: subject_of(row["project_id"], row["id"]) for row in rows}
            known = await titles_of(connection, SOURCE, list(subjects.values()))
            for row in rows:
                if known.get(subjects[row["id"]]) != row["name"][:TITLE_CHARACTERS]:
                    await queries.lock_file.row(connection, id=row["id"])
                    await note_findable(connection, row["id"])
                    put += 1
        if len(rows) < batch:
            return put
        after = rows[-1]["id"]


async def _drop_lost(database: Database, batch: int) -> int:
    """Entries whose file is gone. One that is being analysed anew is found as it was."""
    dropped, after = 0, ""
    while True:
        async with database.transaction() as connection:
            subjects = await list_subjects(connection, SOURCE, after, batch)
            ids = [int(subject.partition("/")[2]) for subject in subjects]
            rows = await queries.files_among.rows(connection, ids=ids)
            there = {subject_of(row["project_id"], row["id"]) for row in rows}
            for lost in [subject for subject in subjects if subject not in there]:
                await drop_entries(connection, SOURCE, lost)
                dropped += 1
        if len(subjects) < batch:
            return dropped
        after = subjects[-1]


def subject_of(project_id: int, file_id: int) -> str:
    """What its entries are about."""
    return f"{project_id}/{file_id}"


def _entries(row: Record) -> list[Entry]:
    """The file itself, and each page that has a text; a text without pages is cut into pieces."""
    url, made = f"/projects/{row['slug']}/files/{row['id']}", row["created_at"]
    sort = "image" if row["kind"] == "image" else "document"
    facts = {"type": sort, "project": row["slug"], "project_name": row["project"], "file": row["id"]}
    whole = Entry(row["name"], row["summary"] or "", None, made, url, facts)
    pages = [page for page in json.loads(row["page_texts"]) if page["text"].strip()]
    if pages:
        return [
            whole,
            *(
                Entry(
                    row["name"],
                    page["text"],
                    None,
                    made,
                    f"{url}?page={page['number']}",
                    {**facts, **_at(page)},
                )
                for page in pages[:MOST_PAGES]
            ),
        ]
    text = row["text"] or ""
    starts = range(0, len(text), BODY_CHARACTERS)
    return [
        whole,
        *(Entry(row["name"], text[at : at + BODY_CHARACTERS], None, made, url, facts) for at in starts),
    ]


def _at(page: dict[str, object]) -> dict[str, object]:
    return {"page": page["number"], "label": page["label"]}
