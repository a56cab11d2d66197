"""Named queries: `-- name: claim_jobs` in a .sql file becomes `queries.claim_jobs.rows(connection, …)`.

aiosql reads the files and numbers the parameters; running them is one call of asyncpg, with nothing in between.
"""

from __future__ import annotations

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


class Queries:
    """The statements of some files, as attributes. The files are read when the first statement is asked for."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    @cached_property
    def _queries(self) -> dict[str, Query]:
        found: dict[str, Query] = {}
        for path in self._paths:
            for query in _read(path):
                if query.name in found:
                    raise ValueError(f"{path.name} names a query {query.name}, and so does another file")
                found[query.name] = query
        return found

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"there is no query named {name}") from None

    def names(self) -> list[str]:
        """Every query's name."""
        return sorted(self._queries)


def _read(path: Path) -> Iterator[Query]:
    loaded = aiosql.from_path(path, "asyncpg", mandatory_parameters=False)
    ordered = loaded.driver_adapter.var_sorted
    for name in loaded.available_queries:
        if not name.endswith("_cursor"):
            yield Query(name, getattr(loaded, name).sql, tuple(ordered.get(name, ())))
