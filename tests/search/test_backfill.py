"""Filling the search: every feature has its turn, whatever befalls another, and one process of all does it."""

from __future__ import annotations

import asyncio

import pytest

from mediamill.app import search_fillers
from mediamill.db.connection import Database
from mediamill.search.backfill import fill, fill_forever
from mediamill.search.entries import SOURCES
from tests.conftest import wait_until
from tests.search.ground import Ground

pytestmark = pytest.mark.spec("L12")


async def broken(_: Database) -> int:
    raise RuntimeError("broken")


async def test_one_that_fails_does_not_keep_the_others_from_it(ground: Ground) -> None:
    async def three(_: Database) -> int:
        return 3

    assert await fill(ground.database, {"broken": broken, "three": three}) == 3


async def test_of_two_servers_one_fills_at_the_start(ground: Ground) -> None:
    filled: list[int] = []

    async def note(_: Database) -> int:
        filled.append(1)
        return 0

    servers = [
        asyncio.create_task(fill_forever(ground.database, 3600, {"broken": broken, "note": note}))
        for _ in range(2)
    ]

    async def done() -> bool:
        return bool(filled)

    try:
        await wait_until(done)
    finally:
        for server in servers:
            server.cancel()
        await asyncio.gather(*servers, return_exceptions=True)
    assert filled == [1]


async def test_the_fillers_of_the_app_run_on_an_empty_database(ground: Ground) -> None:
    assert set(search_fillers()) == {f"{source}s" for source in SOURCES}
    assert await fill(ground.database, search_fillers()) == 0
