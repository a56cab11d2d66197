"""Libraries with their counts, shared by everybody who looks at the same moment: counting millions costs something."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from mediamill.db.connection import Database
from mediamill.libraries.look import find_library, list_libraries

KEEP_FACTOR = 5  # counts are kept for a multiple of the time they took
# What a reader wants to know of seven states: what waits, what can be seen, what can be found, what went wrong.
GROUPS = {
    "pending": ("pending", "extracting"),
    "proxied": ("proxied", "analyzing"),
    "completed": ("completed",),
    "failed": ("failed", "poisoned"),
}

# Of what a scan counts, what is told while it goes.
COUNTED = ("folders", "files", "new", "changed", "renamed", "vanished")


class LibraryDesk:
    """One for all pages."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[bool, tuple[float, list[dict[str, Any]]]] = {}
        self._counting = asyncio.Lock()
        self._changes = 0

    async def list(self, *, trash: bool = False) -> list[dict[str, Any]]:
        """Those that are there, or those in the trash."""
        async with self._counting:
            until, found = self._kept.get(trash, (0.0, []))
            if time.monotonic() < until:
                return found
            began, changes = time.monotonic(), self._changes
            async with self._database.connection() as connection:
                found = [_with_groups(one) for one in await list_libraries(connection, trash=trash)]
            now = time.monotonic()
            if changes == self._changes:  # else what was counted is of the time before
                self._kept[trash] = (now + KEEP_FACTOR * (now - began), found)
            return found

    async def find(self, slug: str) -> dict[str, Any]:
        """One that is there."""
        for library in await self.list():
            if library["slug"] == slug:
                return library
        self.forget()
        async with self._database.connection() as connection:
            await find_library(connection, slug)  # says so if there is none
        return await self.find(slug)

    def forget(self) -> None:
        """Somebody changed something here: count anew for the next who looks."""
        self._kept.clear()
        self._changes += 1


def _with_groups(library: dict[str, Any]) -> dict[str, Any]:
    """A library with its states in groups, in the order of a bar."""
    groups = {name: sum(library["statuses"][state] for state in states) for name, states in GROUPS.items()}
    counts = {name: library["scan_counts"].get(name) or 0 for name in COUNTED}
    return {**library, "groups": groups, "scan_counts": counts}
