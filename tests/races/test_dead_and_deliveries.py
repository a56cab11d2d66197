"""Races at the end of a job's life: requeue against purge, and two deliverers."""

from __future__ import annotations

import asyncio

import pytest

from mediamill.engine.dead import purge_dead, requeue_dead
from mediamill.engine.deliver import deliver_results
from tests.engine.conftest import Bench
from tests.races.conftest import ROUNDS


async def requeue(bench: Bench, id_: int) -> list[int]:
    async with bench.database.transaction() as connection:
        return await requeue_dead(connection, bench.engine, [id_])


async def purge(bench: Bench, id_: int) -> list[int]:
    async with bench.database.transaction() as connection:
        return await purge_dead(connection, [id_])


async def die(bench: Bench, subject: str) -> int:
    id_ = await bench.enqueue("test.subject", subject_id=subject)
    (job,) = await bench.claim()
    await bench.fail(job, permanent=True)
    return id_


@pytest.mark.spec("E13")
async def test_of_requeue_and_purge_exactly_one_wins(bench: Bench) -> None:
    for round_ in range(ROUNDS):
        id_ = await die(bench, f"s{round_}")
        back, gone, back2 = await asyncio.gather(requeue(bench, id_), purge(bench, id_), requeue(bench, id_))
        assert sorted(back + gone + back2) == [id_]
        assert await bench.state(id_) == (None if gone else "queued")
        assert await bench.subject(f"s{round_}") == ("failed" if gone else "released")
        await bench.run("delete from jobs")


@pytest.mark.spec("E13")
async def test_while_one_requeues_the_other_finds_nothing_to_purge(bench: Bench) -> None:
    id_ = await die(bench, "s")
    async with bench.database.transaction() as connection:
        assert await requeue_dead(connection, bench.engine, [id_]) == [id_]
        assert await purge(bench, id_) == []
    assert await bench.state(id_) == "queued"


@pytest.mark.spec("E11")
async def test_two_deliverers_never_deliver_one_result_twice(bench: Bench) -> None:
    total = 0
    for _ in range(ROUNDS // 3):
        for _ in range(4):
            await bench.enqueue("test.delivered")
        await bench.finish(*await bench.claim(amount=4), result="1")
        counts = await asyncio.gather(*(deliver_results(bench.database, bench.engine) for _ in range(3)))
        total += sum(counts)
    while count := await deliver_results(bench.database, bench.engine):
        total += count
    assert total == await bench.one("select count(*) from deliveries") == 4 * (ROUNDS // 3)
    assert await bench.one("select count(*) from dead_jobs") == 0
