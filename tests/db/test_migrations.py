"""Every migration, up and down."""

from __future__ import annotations

import pytest

from mediamill.db.migrate import downgrade, upgrade
from tests.conftest import admin_url, create_database, database_url, run_sql
from tests.db.revisions import REVISIONS, schema_of


async def test_a_check_that_is_missing_makes_another_schema(server_url: str) -> None:
    await run_sql(
        admin_url(server_url), "drop database if exists c with (force)", create_database(server_url, "c")
    )
    url = database_url(server_url, "c")
    await run_sql(url, "create table t (a int constraint positive check (a > 0))")
    with_check = await schema_of(url)
    await run_sql(url, "alter table t drop constraint positive")
    assert await schema_of(url) != with_check
    await run_sql(url, "alter table t add constraint positive check (a > 1)")
    assert await schema_of(url) != with_check


@pytest.mark.spec("L18")
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
