"""Databases that have lived: made at an old revision, filled as they were then, brought up to the newest.

`tests/db/data/<revision>.sql` fills what came with a revision. A database at revision N has grown through all before,
so it holds the data of each. Whoever adds a migration adds the data of the one before, and what can be read of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from mediamill.app import all_kinds
from mediamill.db.connection import Database
from mediamill.db.migrate import newest_revision, schema_revision, upgrade
from mediamill.engine.browse import browse_jobs
from mediamill.engine.recovery.lost_sessions import release_lost_sessions
from mediamill.engine.rules import Engine
from mediamill.settings import Settings
from tests.conftest import admin_url, create_database, database_url, drop_database, open_database, run_sql
from tests.db.grown import DATA, READ, grow_into
from tests.db.revisions import REVISIONS


@pytest.fixture(scope="module")
def grown(server_url: str) -> Iterator[dict[str, str]]:
    """A database of each revision: copies of one that grows."""
    growing = f"growing_{os.getpid()}"
    names = {revision: f"grown_{os.getpid()}_{revision}" for revision in REVISIONS}
    asyncio.run(_grow_all(server_url, growing, names))
    yield {revision: database_url(server_url, name) for revision, name in names.items()}
    asyncio.run(run_sql(admin_url(server_url), *map(drop_database, (growing, *names.values()))))


async def _grow_all(server_url: str, growing: str, names: dict[str, str]) -> None:
    admin = admin_url(server_url)
    await run_sql(admin, create_database(server_url, growing))
    for revision, name in names.items():
        await grow_into(database_url(server_url, growing), revision)
        await run_sql(admin, f"create database {name} template {growing} strategy file_copy")


@pytest.mark.spec("L18")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_database_of_any_age_comes_up_with_everything_that_was_in_it_and_what_ran_runs_again(
    grown: dict[str, str], revision: str
) -> None:
    url = grown[revision]
    await upgrade(url)
    assert await schema_revision(url) == newest_revision()
    async with open_database(url) as database:
        for each, read in READ.items():
            if each <= revision:
                async with database.transaction() as connection:
                    await read(connection)
        await _release(database, Engine(all_kinds(Settings()), session_grace_seconds=0))
        async with database.connection() as connection:
            jobs = (await browse_jobs(connection, owner="old", state="queued")).jobs
    assert "running-1" in [job["subject_id"] for job in jobs]


async def _release(database: Database, engine: Engine) -> None:
    """The first look stamps whoever has no session; the next one takes its work away."""
    await release_lost_sessions(database, engine)
    await release_lost_sessions(database, engine)


def test_every_revision_but_the_newest_has_data_and_somebody_who_reads_it() -> None:
    filled = {path.stem for path in DATA.glob("*.sql")}
    assert set(REVISIONS[:-1]) <= filled, "add tests/db/data/<revision>.sql"
    assert filled == set(READ), "add what can be read of it, by the product's own verbs"
