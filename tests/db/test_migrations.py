"""Every migration, up and down."""

from __future__ import annotations

import pytest

from mediamill.db.migrate import downgrade, upgrade
from tests.conftest import admin_url, create_database, database_url, run_sql
from tests.db.revisions import REVISIONS, schema_of


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
