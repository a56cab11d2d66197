"""Alembic migrations, run under a lock so that two servers starting at once do it once.

Alembic and SQLAlchemy take a second to import: they are, only when the schema is not up to date.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from mediamill.db.connection import Connection, connect
from mediamill.db.pgvector import use_pgvector
from mediamill.errors import ConflictError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection as AlembicConnection

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x6D65646961  # "media": the advisory lock of everything that changes the schema
HEAD = "head"


class SchemaNewerError(ConflictError):
    """The schema is that of a newer mediamill."""

    code = "schema_newer"


def alembic_config(connection: AlembicConnection | None = None) -> Config:
    """Alembic's configuration, without an ini file."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config


def newest_revision() -> str:
    """The revision that this code wants: files are named by revision, and their order is the history."""
    return max(path.name.split("_")[0] for path in (FOLDER / "versions").glob("[0-9]*_*.py"))


def check_known(revision: str, what: str = "the database") -> None:
    """Refuse what a newer mediamill has made: this one cannot know what is in it."""
    if revision > newest_revision():
        raise SchemaNewerError(
            f"{what} has schema {revision}, newer than this mediamill ({newest_revision()})",
            fix="install the newer mediamill; an older one cannot use it",
        )


async def schema_revision(url: str) -> str | None:
    """The revision that the database has; None for one without any schema of ours."""
    async with _connected(url) as connection:
        return await _read_revision(connection)


async def upgrade(url: str, revision: str = HEAD) -> None:
    """Bring the schema up to a revision; and let it use pgvector, which may have come since."""
    async with _connected(url) as connection:
        found = await _read_revision(connection)
        if found is not None:
            check_known(found)
        if revision != HEAD or found != newest_revision():
            from alembic import command

            await _migrate(url, command.upgrade, revision)
        await use_pgvector(connection, LOCK)


async def downgrade(url: str, revision: str = "base") -> None:
    """Take the schema back to a revision."""
    from alembic import command

    await _migrate(url, command.downgrade, revision)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    connection = await connect(url, name="mediamill migrate")
    try:
        yield connection
    finally:
        await connection.close()


async def _read_revision(connection: Connection) -> str | None:
    try:
        found = await connection.fetchval("select version_num from alembic_version")
    except asyncpg.UndefinedTableError:
        return None
    return None if found is None else str(found)


async def _migrate(url: str, verb: Any, revision: str) -> None:
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    def run(connection: AlembicConnection) -> None:
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": LOCK})
        verb(alembic_config(connection), revision)

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect(url, name="mediamill migrate"),
        poolclass=NullPool,
    )
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()
