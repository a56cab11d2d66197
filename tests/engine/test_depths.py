"""How many jobs wait, in the log of a server."""

from __future__ import annotations

import logging

import pytest

from mediamill.engine.depths import changed_much, report_depths
from mediamill.engine.model import NewJob
from tests.engine.conftest import Bench


@pytest.mark.spec("E16")
@pytest.mark.parametrize(
    ("before", "now", "is_much"),
    [
        (0, 9, False),
        (0, 10, True),
        (10, 0, True),
        (12, 3, False),
        (100, 149, False),
        (100, 150, True),
        (100, 50, True),
    ],
)
def test_a_change_by_half_and_by_ten_jobs_is_much(before: int, now: int, is_much: bool) -> None:
    assert changed_much(before, now) is is_much


@pytest.mark.spec("E16")
async def test_the_depth_of_a_pool_is_in_the_log_by_default_when_it_changed_much(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def reported(before: dict[str, int]) -> tuple[dict[str, int], list[str]]:
        caplog.clear()
        after = await report_depths(bench.database, before)
        return after, [record.getMessage() for record in caplog.records]

    async with bench.database.transaction() as connection:
        await bench.enqueuer.enqueue_jobs(connection, [NewJob("test.plain")] * 30)
    state, said = await reported({})
    assert said == ["pool default: 30 jobs waiting, 0 before"]
    await bench.claim(amount=14)
    state, said = await reported(state)
    assert said == []
    await bench.claim(amount=1)
    state, said = await reported(state)
    assert said == ["pool default: 15 jobs waiting, 30 before"]
