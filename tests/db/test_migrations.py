"""Every migration, up and down."""

from __future__ import annotations

from mediamill.db.migrate import downgrade, upgrade
from tests.conftest import admin_url, create_database, database_url, run_sql
from tests.db.revisions import REVISIONS, schema_of


async def test_each_migration_goes_up_and_down_and_up_to_the_same_schema(server_url: str) -> None:
    await run_sql(
        admin_url(server_url), "drop database if exists m with (force)", create_database(server_url, "m")
    )
    url = database_url(server_url, "m")
    before, old = "base", await schema_of(url)
    for revision in REVISIONS:
        await upgrade(url, revision)
        new = await schema_of(url)
        assert new != old, revision
        await downgrade(url, before)
        assert await schema_of(url) == old, revision
        await upgrade(url, revision)
        assert await schema_of(url) == new, revision
        before, old = revision, new
