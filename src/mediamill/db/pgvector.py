"""pgvector, which a database may lack: vectors are kept all the same, and only words find anything.

The column of vectors is an array until the extension exists (pgvector.sql); then it becomes one of pgvector's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mediamill.db.connection import Connection
from mediamill.db.queries import Queries

queries = Queries(Path(__file__).with_name("pgvector.sql"))

CREATE = "create extension vector"
AS_SUPERUSER = "have a superuser run this in the database of mediamill, once: "
NEXT_START = "; the next start of mediamill uses it"


@dataclass(frozen=True, slots=True)
class VectorSupport:
    """Whether things are found by vectors, and if not, why and what to do."""

    state: str
    message: str
    fix: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether vectors can be compared."""
        return self.state == "ready"

    @property
    def ways(self) -> str:
        """By what things are found, for people."""
        return "by words, meaning and look" if self.is_ready else f"by words only: {self.message}"


STATES = {
    each.state: each
    for each in (
        VectorSupport("ready", "pgvector is used"),
        VectorSupport("next_start", "pgvector is not used yet", "the next start of mediamill uses it"),
        VectorSupport(
            "too_old",
            "the database has a pgvector older than 0.7",
            f"{AS_SUPERUSER}alter extension vector update{NEXT_START}",
        ),
        VectorSupport(
            "not_created",
            "pgvector is installed, but not created in the database",
            f"{AS_SUPERUSER}{CREATE}{NEXT_START}",
        ),
        VectorSupport(
            "not_installed",
            "the database server has no pgvector",
            f"install it there (Debian: postgresql-NN-pgvector), then {AS_SUPERUSER}{CREATE}{NEXT_START}",
        ),
    )
}


async def vector_support(connection: Connection) -> VectorSupport:
    """As the database is now."""
    return STATES[await queries.find_state.value(connection)]


async def use_pgvector(connection: Connection, lock: int) -> None:
    """Create the extension if we may, and let vectors be found by it, if the server has it and it is not used yet.

    `lock`: of everything that changes the schema.
    """
    if not await queries.is_waiting.value(connection):
        return
    async with connection.transaction():
        await queries.lock_schema.row(connection, key=lock)
        await queries.adopt.run(connection)
