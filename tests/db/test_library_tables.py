"""What the tables of libraries must have, asserted of a migrated database."""

from __future__ import annotations

import asyncpg
import pytest

from mediamill.db.connection import Database

UNIQUE = """
select array_agg(a.attname order by k.place) from pg_index i
cross join unnest(i.indkey) with ordinality as k (number, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indrelid = $1::regclass and i.indisunique and i.indisvalid and i.indpred is null group by i.indexrelid
"""
COLUMNS = """
select table_name from information_schema.columns
where table_schema = 'public' and column_name = 'search_vector' and data_type = 'tsvector' order by 1
"""
WORDS = """
select exists (select from pg_indexes where schemaname = 'public' and tablename = $1
    and indexdef like '%USING gin (search_vector%')
"""
ASSET = """
insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at)
values ($1, 1, $2, 'image', 0, 0, 0, now())
"""


@pytest.mark.spec("L2", "L18")
async def test_a_path_is_unique_within_its_library(database: Database) -> None:
    async with database.connection() as connection:
        unique = [row[0] for row in await connection.fetch(UNIQUE, "assets")]
        assert ["library", "rel_path"] in unique
        await connection.execute(ASSET, 1, "a.jpg")
        await connection.execute(ASSET, 2, "a.jpg")
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(ASSET, 1, "a.jpg")


@pytest.mark.spec("L12", "L18")
async def test_what_can_be_found_by_words_has_a_tsvector_with_an_index(database: Database) -> None:
    async with database.connection() as connection:
        tables = [row[0] for row in await connection.fetch(COLUMNS)]
        assert {"assets", "video_scenes", "video_frames", "search_entries"} <= set(tables)
        for table in ("assets", "video_scenes", "video_frames", "search_entries"):
            assert await connection.fetchval(WORDS, table), table
