"""All revisions of the schema, and the schema that a database has."""

from __future__ import annotations

import asyncpg
from alembic.script import ScriptDirectory

from mediamill.db.migrate import alembic_config

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
