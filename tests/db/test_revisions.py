"""The quick look at the schema's revision agrees with Alembic."""

from __future__ import annotations

from alembic.script import ScriptDirectory

from mediamill.db.migrate import alembic_config, newest_revision, schema_revision
from tests.conftest import admin_url, create_database, database_url, run_sql


def test_the_newest_file_is_what_alembic_calls_the_head() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [newest_revision()]


async def test_a_migrated_database_has_the_newest_revision(new_url: str) -> None:
    assert await schema_revision(new_url) == newest_revision()


async def test_a_database_without_our_schema_has_none(server_url: str) -> None:
    admin = admin_url(server_url)
    await run_sql(admin, create_database(server_url, "no_schema_yet"))
    try:
        assert await schema_revision(database_url(server_url, "no_schema_yet")) is None
    finally:
        await run_sql(admin, "drop database no_schema_yet with (force)")
