"""Migrations on start: by one process of several, all or nothing, and never of a schema that is newer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator

import asyncpg
import pytest

from mediamill.db.migrate import LOCK, SchemaNewerError, newest_revision, schema_revision, upgrade
from tests.conftest import (
    admin_url,
    create_database,
    database_url,
    drop_database,
    open_database,
    run_sql,
    wait_until,
)
from tests.db.grown import READ, grow
from tests.db.revisions import REVISIONS, schema_of

START = "import asyncio, sys; from mediamill.db.migrate import upgrade; asyncio.run(upgrade(sys.argv[1]))"
SESSIONS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'mediamill migrate'
"""
WAITING = f"{SESSIONS} and wait_event_type = 'Lock'"


@pytest.fixture
async def old(server_url: str) -> AsyncIterator[str]:
    """A database of the first revision that has lived."""
    name, admin = f"safety_{os.getpid()}", admin_url(server_url)
    await run_sql(admin, drop_database(name), create_database(server_url, name))
    url = database_url(server_url, name)
    await grow(url, REVISIONS[0])
    yield url
    await run_sql(admin, drop_database(name))


def start(url: str) -> subprocess.Popen[bytes]:
    """A process that migrates as every start does."""
    return subprocess.Popen([sys.executable, "-c", START, url], stderr=subprocess.PIPE)


async def until_count(connection: asyncpg.Connection[asyncpg.Record], sql: str, count: int) -> None:
    async def reached() -> bool:
        return bool(await connection.fetchval(sql) == count)

    await wait_until(reached)


async def test_of_two_processes_that_start_at_once_one_migrates(old: str) -> None:
    watch = await asyncpg.connect(old)
    await watch.execute(f"create table migrations_seen (at timestamptz); select pg_advisory_lock({LOCK})")
    await watch.execute(
        "create function note_migration() returns trigger language plpgsql as "
        "$$ begin insert into migrations_seen values (clock_timestamp()); return null; end $$"
    )
    await watch.execute(
        "create trigger note after update on alembic_version for each statement execute function note_migration()"
    )
    both = [start(old), start(old)]
    await until_count(watch, WAITING, 2)
    await watch.execute(f"select pg_advisory_unlock({LOCK})")
    for process in both:
        assert process.wait(120) == 0, process.communicate()[1]
    assert await schema_revision(old) == newest_revision()
    assert await watch.fetchval("select count(*) from migrations_seen") == len(REVISIONS) - 1
    await watch.close()


@pytest.mark.spec("L18")
async def test_a_process_killed_while_it_migrates_leaves_the_old_schema_whole(old: str) -> None:
    before = await schema_of(old)
    watch, in_the_way = await asyncpg.connect(old), await asyncpg.connect(old)
    # The first step is done then, but cannot be noted.
    await in_the_way.execute("begin; select * from alembic_version for update")
    process = start(old)
    await until_count(watch, WAITING, 1)
    process.kill()
    process.communicate()
    await in_the_way.close()
    await until_count(watch, SESSIONS, 0)
    assert await schema_revision(old) == REVISIONS[0]
    assert await schema_of(old) == before
    await watch.close()
    await upgrade(old)
    assert await schema_revision(old) == newest_revision()
    async with open_database(old) as database, database.transaction() as connection:
        await READ[REVISIONS[0]](connection)


async def test_a_newer_schema_is_refused_and_not_touched(new_url: str) -> None:
    await run_sql(new_url, "update alembic_version set version_num = '9999'")
    before = await schema_of(new_url)
    with pytest.raises(
        SchemaNewerError, match=f"schema 9999, newer than this mediamill .{newest_revision()}"
    ):
        await upgrade(new_url)
    assert (await schema_of(new_url), await schema_revision(new_url)) == (before, "9999")
