"""Alembic migrations, run under a lock so that two servers starting at once do it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from mediamill.db.connection import connect

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x6D65646961  # "media": the advisory lock of everything that changes the schema


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, without an ini file."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config


async def upgrade(url: str, revision: str = "head") -> None:
    """Bring the schema up to a revision."""
    await _migrate(url, command.upgrade, revision)


async def downgrade(url: str, revision: str = "base") -> None:
    """Take the schema back to a revision."""
    await _migrate(url, command.downgrade, revision)


async def _migrate(url: str, verb: Any, revision: str) -> None:
    def run(connection: Connection) -> None:
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
