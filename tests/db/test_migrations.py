"""Every migration, up and down."""

from __future__ import annotations

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from mediamill.db.migrate import alembic_config, downgrade, upgrade
from tests.conftest import admin_url, create_database, database_url, run_sql

REVISIONS = [
    script.revision
    for script in ScriptDirectory.from_config(alembic_config()).walk_revisions("base", "heads")
][::-1]
SCHEMA = """
select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns
where table_schema = 'public' and table_name <> 'alembic_version' order by 1, 2
"""
INDEXES = """
select indexname, indexdef from pg_indexes where schemaname = 'public' and tablename <> 'alembic_version' order by 1
"""


async def schema_of(url: str) -> tuple[list[tuple[object, ...]], ...]:
    connection = await asyncpg.connect(url)
    try:
        columns, indexes = await connection.fetch(SCHEMA), await connection.fetch(INDEXES)
        return [tuple(row) for row in columns], [tuple(row) for row in indexes]
    finally:
        await connection.close()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_each_migration_goes_up_and_down_and_up_to_the_same_schema(
    server_url: str, revision: str
) -> None:
    await run_sql(
        admin_url(server_url), "drop database if exists m with (force)", create_database(server_url, "m")
    )
    url = database_url(server_url, "m")
    position = REVISIONS.index(revision)
    before = REVISIONS[position - 1] if position else "base"
    if position:
        await upgrade(url, before)
    old = await schema_of(url)
    await upgrade(url, revision)
    new = await schema_of(url)
    assert new != old
    await downgrade(url, before)
    assert await schema_of(url) == old
    await upgrade(url, revision)
    assert await schema_of(url) == new
