"""Waiting with a limit."""

from __future__ import annotations

import asyncio

from mediamill.clock import wait_at_most


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
