"""Named queries: `-- name: claim_jobs` in a .sql file becomes `queries.claim_jobs.rows(connection, …)`.

aiosql reads the files and numbers the parameters; running them is one call of asyncpg, with nothing in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import aiosql
from asyncpg import Record

from mediamill.db.connection import Connection


class Query:
    """One named statement and the order of its parameters."""

    __slots__ = ("name", "parameters", "sql")

    def __init__(self, name: str, sql: str, parameters: tuple[str, ...]) -> None:
        self.name = name
        self.sql = sql
        self.parameters = parameters

    def arguments(self, given: dict[str, Any]) -> list[Any]:
        """The given values in the order of the statement; a missing or unknown name is an error."""
        if len(given) != len(self.parameters):
            raise TypeError(f"{self.name} takes {sorted(self.parameters)}, not {sorted(given)}")
        return [given[name] for name in self.parameters]

    async def rows(self, connection: Connection, **given: Any) -> list[Record]:
        """All rows."""
        return await connection.fetch(self.sql, *self.arguments(given))

    async def row(self, connection: Connection, **given: Any) -> Record | None:
        """The first row, if there is one."""
        return await connection.fetchrow(self.sql, *self.arguments(given))

    async def value(self, connection: Connection, **given: Any) -> Any:
        """The first column of the first row, or None."""
        return await connection.fetchval(self.sql, *self.arguments(given))

    async def run(self, connection: Connection, **given: Any) -> int:
        """Run it for its effect; how many rows it touched."""
        status = await connection.execute(self.sql, *self.arguments(given))
        last = status.rsplit(" ", 1)[-1]
        return int(last) if last.isdigit() else 0


# Where a statement begins, as aiosql sees it.
_BEGIN = re.compile(r"^--\s*name\s*:\s*(?P<name>\w+)", re.MULTILINE)


class Queries:
    """The statements of some files, as attributes.

    The files are read when the first statement is asked for, and a statement is parsed when it is asked for: a process
    needs few of them, and to parse all took a sixth of the CPU that the start of a worker costs.
    """

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    @cached_property
    def _texts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in self._paths:
            for name, text in _split(path.read_text(encoding="utf-8")):
                if name in found:
                    raise ValueError(f"{path.name} names a query {name}, and another one has that name, too")
                found[name] = text
        return found

    def __getattr__(self, name: str) -> Query:
        text = self._texts.get(name)
        if text is None:
            raise AttributeError(f"there is no query named {name}")
        query = _parse(name, text)
        setattr(self, name, query)  # found without this method from now on
        return query

    def names(self) -> list[str]:
        """Every query's name."""
        return sorted(self._texts)


def _split(text: str) -> Iterator[tuple[str, str]]:
    begins = list(_BEGIN.finditer(text))
    ends = [begin.start() for begin in begins[1:]] + [len(text)]
    for begin, end in zip(begins, ends, strict=True):
        yield begin["name"], text[begin.start() : end]


def _parse(name: str, text: str) -> Query:
    loaded = aiosql.from_str(text, "asyncpg", mandatory_parameters=False)
    return Query(name, getattr(loaded, name).sql, tuple(loaded.driver_adapter.var_sorted.get(name, ())))
