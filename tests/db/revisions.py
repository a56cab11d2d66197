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
# What columns do not show: checks, keys to other tables, what happens when those rows go.
CONSTRAINTS = """
select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
where connamespace = 'public'::regnamespace and conrelid <> 0 and conrelid::regclass::text <> 'alembic_version'
order by 1, 2
"""


async def schema_of(url: str) -> tuple[list[tuple[object, ...]], ...]:
    connection = await asyncpg.connect(url)
    try:
        parts = [await connection.fetch(statement) for statement in (SCHEMA, INDEXES, CONSTRAINTS)]
        return tuple([tuple(row) for row in part] for part in parts)
    finally:
        await connection.close()
