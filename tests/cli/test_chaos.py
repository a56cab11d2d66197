"""`mediamill chaos`: a short run. Workers, server and database are killed while jobs run, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.conftest import finish_process, start_process

JOBS, KILLS, SEED = 300, 12, 20261115


@pytest.mark.timeout(600)
@pytest.mark.spec("E8", "E9", "E11", "E17")
async def test_nothing_is_lost_nor_delivered_twice_nor_stuck_while_everything_is_killed() -> None:
    process = start_process("chaos", "--jobs", JOBS, "--kills", KILLS, "--seed", SEED, "--json")
    said = await asyncio.to_thread(finish_process, process, 580)
    assert said.json == {"jobs": JOBS, "kills": KILLS, "lost": 0, "twice": 0, "stuck": 0, "seed": SEED}
