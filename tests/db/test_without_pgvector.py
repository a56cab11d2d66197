"""A database of an ordinary role without pgvector: words find things, and kept vectors do once it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mediamill.db.connection import Database
from mediamill.db.migrate import downgrade, upgrade
from mediamill.db.pgvector import CREATE, VectorSupport, vector_support
from mediamill.search.find import NoPgvectorError
from mediamill.search.indexes import ensure_indexes
from mediamill.search.model import Like
from tests.conftest import open_database, run_sql
from tests.plain_database import PlainDatabase, plain_database
from tests.search.ground import Ground, towards


@pytest.fixture
async def plain(server_url: str) -> AsyncIterator[PlainDatabase]:
    async with plain_database(server_url) as plain:
        yield plain


async def _support(database: Database) -> VectorSupport:
    async with database.connection() as connection:
        return await vector_support(connection)


@pytest.mark.spec("L20")
async def test_words_find_without_pgvector_and_vectors_made_meanwhile_find_once_it_is_there(
    plain: PlainDatabase,
) -> None:
    await upgrade(plain.url)
    async with open_database(plain.url) as database:
        ground = Ground(database)
        dog = await ground.asset(await ground.library(), "dog.jpg", "a dog", meaning=towards(1))
        assert (await _support(database)).state == "not_installed"
        found = await ground.find("dog", meaning=towards(1))
        assert ([hit.title for hit in found.hits], found.ways) == (["dog.jpg"], ("words",))
        with pytest.raises(NoPgvectorError, match="no pgvector"):
            await ground.find(like=Like("asset", dog))
        assert await ensure_indexes(database) == 0

    await plain.install_pgvector()
    await upgrade(plain.url)
    async with open_database(plain.url) as database:
        support = await _support(database)
        assert support.state == "not_created"
        assert CREATE in (support.fix or "")
    await run_sql(plain.as_superuser, CREATE)
    async with open_database(plain.url) as database:
        assert (await _support(database)).state == "next_start"

    await upgrade(plain.url)
    async with open_database(plain.url) as database:
        ground = Ground(database)
        assert (await _support(database)).is_ready
        cat = await ground.asset(await ground.library("more"), "cat.jpg", "a cat", meaning=towards(1, 0.5))
        assert await ground.titles("puppy", meaning=towards(1)) == ["dog.jpg", "cat.jpg"]
        assert await ground.titles(like=Like("asset", cat)) == ["dog.jpg"]
        assert await ensure_indexes(database) == 2


@pytest.mark.spec("L18")
async def test_without_pgvector_the_schema_goes_down_and_up_and_a_superuser_needs_no_statement(
    plain: PlainDatabase,
) -> None:
    await upgrade(plain.url)
    await downgrade(plain.url)
    await upgrade(plain.url)
    await plain.install_pgvector()
    await upgrade(plain.as_superuser)
    async with open_database(plain.url) as database:
        assert (await _support(database)).is_ready
