"""The folders that a library knows, in the order of a walk, a page at a time: a scan lays both side by side."""

from __future__ import annotations

from collections import deque

from asyncpg import Record

from mediamill.db.connection import Database
from mediamill.libraries.store import queries
from mediamill.libraries.walk import key_of

PAGE = 2000


class KnownFolders:
    """All but the root, after a given one."""

    def __init__(self, database: Database, library: int, after: str | None) -> None:
        self._database, self._library = database, library
        self._last = key_of(after or "")
        self._page: deque[Record] = deque()
        self._ended = False

    async def peek(self) -> Record | None:
        """The next one."""
        if not self._page and not self._ended:
            async with self._database.connection() as connection:
                rows = await queries.known_folders.rows(
                    connection, library=self._library, after=self._last, amount=PAGE
                )
            self._page.extend(rows)
            self._ended = len(rows) < PAGE
            self._last = rows[-1]["key"] if rows else self._last
        return self._page[0] if self._page else None

    def take(self) -> Record:
        """The one that was looked at."""
        return self._page.popleft()
