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
LEAD_SECONDS = 2.0  # within a sentence, the time of a word is an estimate
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


@dataclass(slots=True)
class Passage:
    """Some sentences. `times`: of each, where in the text it begins, how long it is, from when to when it is said."""

    text: str = ""
    times: list[tuple[int, int, float, float]] = field(default_factory=list)

    @property
    def starts_at(self) -> float:
        """When it begins."""
        return self.times[0][2]

    def add(self, text: str, starts_at: float, ends_at: float) -> None:
        """One more sentence."""
        place = len(self.text) + 1 if self.text else 0
        self.text = f"{self.text} {text}" if self.text else text
        self.times.append((place, len(text), starts_at, ends_at))


def cut_passages(segments: Iterable[tuple[float, float, str]]) -> list[Passage]:
    """What is said (from, to, text), in passages of about half a minute."""
    passages: list[Passage] = []
    for starts_at, ends_at, text in segments:
        text = text.strip()
        if not text:
            continue
        last = passages[-1] if passages else None
        if (
            last is None
            or starts_at - last.starts_at >= PASSAGE_SECONDS
            or len(last.text) + len(text) >= PASSAGE_CHARACTERS
        ):
            last = Passage()
            passages.append(last)
        last.add(text, starts_at, ends_at)
    return passages


def spoken_at(times: Sequence[Sequence[float]], place: int) -> float:
    """When the word at this place of a passage is said, or a moment earlier, but not before its sentence begins."""
    begins, length, starts_at, ends_at = next(one for one in reversed(times) if one[0] <= place)
    estimate = starts_at + (place - begins) / max(1, length) * (ends_at - starts_at)
    return round(max(starts_at, estimate - LEAD_SECONDS), 2)


def _plain(text: str, most: int) -> str:
    """What the database can keep."""
    return text[:most].encode("utf-8", "replace").decode().replace("\0", "")
