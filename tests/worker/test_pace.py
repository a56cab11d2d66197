"""How many jobs a lane claims ahead, and whom an interruption is meant for."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta

import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.worker import pace
from mediamill.worker.lane import _seconds_until
from mediamill.worker.pace import MOST_AHEAD, Pace
from mediamill.worker.run import Slot
from tests.worker.harness import wait_until

JOB = ClaimedJob(7, 3, 5, "test.k", "audio", "o", None, None, 1, 3, "{}", None)


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    return clock


def test_a_lane_claims_ahead_what_it_ends_in_a_quarter_of_a_second(clock: Clock) -> None:
    one = Pace()
    clock.now += 3 / 64
    assert one.ahead(1_000) == 0, "too soon to know"
    clock.now += 5 / 64
    assert one.ahead(40) == 80  # 320 in a second
    clock.now += 1 / 64
    assert one.ahead(99) == 80
    clock.now += 1
    assert one.ahead(40) == 56, "down slowly"
    clock.now += 1
    assert one.ahead(40 + 800) == 200, "up at once"
    clock.now += 1
    assert one.ahead(100_000) == MOST_AHEAD == 500
    one.stall(100_000)
    clock.now += 1
    assert one.ahead(100_000) == 0
    clock.now += 1
    assert one.ahead(100_008) == 2


def test_a_lane_waits_until_a_job_is_due_and_not_longer_than_it_polls() -> None:
    now = datetime.now(UTC)
    assert _seconds_until(None, 5.0) == 5.0
    assert _seconds_until(now + timedelta(seconds=60), 5.0) == 5.0
    assert 1 < _seconds_until(now + timedelta(seconds=60), 90.0) <= 60
    assert _seconds_until(now - timedelta(seconds=60), 5.0) == 0.02


async def test_an_interruption_is_for_the_job_of_a_slot_and_another_for_the_slot() -> None:
    slot, stopped = Slot(), list[bool]()
    assert (slot.job, slot.deadline, slot.leaving, slot.stopped) == (None, math.inf, False, False)
    slot.stop()
    assert not slot.stopped, "nothing runs there"

    async def work() -> None:
        for _ in range(3):
            slot.begin(JOB, 9.0)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(slot.stop_cancelled())
                if not slot.stop_cancelled():
                    raise
            slot.end()

    async def until_working() -> None:
        await wait_until(lambda: slot.job is not None and not slot.stopped, "the slot works")

    slot.task = asyncio.create_task(work())
    await until_working()
    assert (slot.job, slot.deadline) == (JOB, 9.0)
    failure = ValueError("no")
    slot.stop(failure=failure)
    slot.stop(claim_lost=True)
    assert (slot.stopped, slot.claim_lost, slot.failure) == (True, False, failure), "the first reason counts"
    await until_working()
    assert (slot.claim_lost, slot.failure) == (False, None)
    slot.stop(claim_lost=True)
    assert (slot.claim_lost, slot.failure) == (True, None)
    await until_working()
    slot.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slot.task
    assert stopped == [True, True, False]
