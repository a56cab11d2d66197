"""`mediamill chaos`: a short run. Workers, server and database are killed while jobs run, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mediamill.db.connection import Database, DatabaseDownError
from mediamill.testing.chaos import Chaos, ChaosPlan
from tests.cli.conftest import finish_process, start_process

JOBS, KILLS, SEED = 150, 8, 20261115


@pytest.mark.timeout(600)
@pytest.mark.spec("E8", "E9", "E11", "E17")
async def test_nothing_is_lost_nor_delivered_twice_nor_stuck_while_everything_is_killed() -> None:
    process = start_process("chaos", "--jobs", JOBS, "--kills", KILLS, "--seed", SEED, "--json")
    said = await asyncio.to_thread(finish_process, process, 580)
    assert said.json == {"jobs": JOBS, "kills": KILLS, "lost": 0, "twice": 0, "stuck": 0, "seed": SEED}


async def test_a_database_that_stays_away_for_long_is_waited_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    @asynccontextmanager
    async def away_at_first(_chaos: Chaos) -> AsyncIterator[Database]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise DatabaseDownError("the database does not answer")
        yield database

    monkeypatch.setattr(Chaos, "_database", away_at_first)
    assert await Chaos(ChaosPlan())._one("select 7") == 7
    assert looks == 2
