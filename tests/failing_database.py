"""A database that cannot be reached for a moment, as a background task meets it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mediamill.db.connection import Connection, Database


class FailingDatabase(Database):
    """The same database for one who meets these errors first, one for each connection or transaction."""

    def __init__(self, database: Database, *errors: Exception) -> None:
        super().__init__(database.url, database.pool)
        self.errors = list(errors)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        self._fail()
        async with super().connection() as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        self._fail()
        async with super().transaction() as connection:
            yield connection

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


def failing(database: Database) -> FailingDatabase:
    """It is cut off, then there is a fault of ours, then all is well."""
    return FailingDatabase(database, ConnectionResetError("cut off"), RuntimeError("a fault"))
