"""What the tools are given: the database, and what only the command can put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.db.connection import Database
from mediamill.mcp.tools import Progress
from mediamill.settings import Settings

MOST_TEXT = 20_000  # characters of a text in one answer
MOST_FACTS = 8_000


@dataclass(frozen=True, slots=True)
class Files:
    """The folder whose files may be processed, and who does it: from a file in it, by its place, to a report."""

    folder: Path
    process: Callable[[str, Progress], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Mill:
    """`find`: a search, as `GET /api/search` is asked and answers. `files`: None if none may be processed."""

    settings: Settings
    database: Database
    find: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    url: str = ""
    files: Files | None = None


def page_of(text: str, offset: int) -> dict[str, Any]:
    """So much of a text as fits into one answer, and where it goes on."""
    end = offset + MOST_TEXT
    return {
        "text": text[offset:end],
        "text_characters": len(text),
        "next_offset": end if end < len(text) else None,
    }
