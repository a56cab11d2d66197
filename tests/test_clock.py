"""Waiting with a limit, and between two tries."""

from __future__ import annotations

import asyncio
from itertools import islice

from mediamill.clock import SPREAD, pauses, wait_at_most


async def test_whoever_is_told_to_stop_just_as_the_event_comes_stops() -> None:
    event, rounds = asyncio.Event(), 0

    async def go_on() -> None:
        nonlocal rounds
        while True:
            await wait_at_most(event, 60)
            event.clear()
            rounds += 1

    task = asyncio.create_task(go_on())
    await asyncio.sleep(0)
    event.set()
    await asyncio.sleep(0)  # the waiter is awake inside, its task is not yet
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled()


async def test_the_time_is_over_or_the_event_is_there() -> None:
    event = asyncio.Event()
    assert not await wait_at_most(event, 0.01)
    event.set()
    assert await wait_at_most(event, 60)


def test_pauses_grow_up_to_a_limit_and_a_part_of_each_is_by_chance() -> None:
    longest = list(islice(pauses(0.5, 3, lambda: 0.0), 5))
    shortest = list(islice(pauses(0.5, 3, lambda: 1.0), 5))
    assert longest == [0.5, 1, 2, 3, 3]
    assert shortest == [each * (1 - SPREAD) for each in longest]
    assert 0 < SPREAD < 1


def test_two_who_lost_the_same_server_do_not_wait_for_the_same_time() -> None:
    assert list(islice(pauses(0.05, 1), 8)) != list(islice(pauses(0.05, 1), 8))
