"""What can be found besides libraries: a video and what is said in it, media of chats, files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mediamill.db.connection import Connection
from mediamill.errors import InvalidError
from mediamill.search.store import queries

TITLE_CHARACTERS, BODY_CHARACTERS, WORDS_CHARACTERS, SUBJECT_CHARACTERS = 500, 10_000, 20_000, 300
MOST_PARTS = 5_000
PASSAGE_SECONDS, PASSAGE_CHARACTERS = 30.0, 400
SOURCES = ("video", "message", "file")


class BadEntryError(InvalidError):
    """That cannot be an entry."""

    code = "bad_entry"


@dataclass(frozen=True, slots=True)
class Entry:
    """One passage of something. `words`: found by, but not shown; `facts["type"]`: image, video, audio, document."""

    title: str
    body: str = ""
    starts_at: float | None = None
    happened_at: datetime | None = None
    url: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""


async def put_entries(connection: Connection, source: str, subject: str, entries: Sequence[Entry]) -> None:
    """All that can be found of one subject, in place of what could be before. What did not change is left as it is."""
    if source not in SOURCES or not 0 < len(subject) <= SUBJECT_CHARACTERS:
        raise BadEntryError(f"{source[:50]!r} {subject[:50]!r} is nothing that entries could be about")
    for part, entry in enumerate(entries[:MOST_PARTS]):
        await queries.put_entry.run(
            connection,
            source=source,
            subject=subject,
            part=part,
            title=_plain(entry.title, TITLE_CHARACTERS),
            body=_plain(entry.body, BODY_CHARACTERS),
            starts_at=entry.starts_at,
            happened_at=entry.happened_at,
            url=entry.url,
            facts=json.dumps(dict(entry.facts)),
            words=_plain(entry.words, WORDS_CHARACTERS),
        )
    await queries.drop_entries.run(
        connection, source=source, subject=subject, from_part=len(entries[:MOST_PARTS])
    )


async def drop_entries(connection: Connection, source: str, subject: str) -> None:
    """Nothing of it is found any more."""
    await queries.drop_entries.run(connection, source=source, subject=subject, from_part=0)


async def drop_entries_under(connection: Connection, source: str, owner: str) -> None:
    """Nothing whose subject is `owner/…` is found any more."""
    await queries.drop_entries_under.run(connection, source=source, first=f"{owner}/", past=f"{owner}0")


async def titles_of(connection: Connection, source: str, subjects: Sequence[str]) -> dict[str, str]:
    """What these are found as; those that are not found are not in it."""
    rows = await queries.titles_of.rows(connection, source=source, subjects=list(subjects))
    return {row["subject"]: row["title"] for row in rows}


async def facts_of(connection: Connection, source: str, subject: str) -> dict[str, Any] | None:
    """What one was put in with: its facts, `title` and `url`. None: it is not found."""
    row = await queries.facts_of.row(connection, source=source, subject=subject)
    return None if row is None else {**json.loads(row["facts"]), "title": row["title"], "url": row["url"]}


async def list_subjects(connection: Connection, source: str, after: str, amount: int) -> list[str]:
    """What can be found of a source, so many behind one of them; in the order of their bytes."""
    rows = await queries.list_subjects.rows(connection, source=source, after=after, amount=amount)
    return [row["subject"] for row in rows]


def cut_passages(segments: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """What is said, in passages of about half a minute: (when one begins, its text)."""
    passages: list[tuple[float, str]] = []
    for starts_at, text in segments:
        text = text.strip()
        if not text:
            continue
        if passages:
            began, said = passages[-1]
            if starts_at - began < PASSAGE_SECONDS and len(said) + len(text) < PASSAGE_CHARACTERS:
                passages[-1] = (began, f"{said} {text}")
                continue
        passages.append((starts_at, text))
    return passages


def _plain(text: str, most: int) -> str:
    """What the database can keep."""
    return text[:most].encode("utf-8", "replace").decode().replace("\0", "")
