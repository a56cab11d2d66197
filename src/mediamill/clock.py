"""Waiting with a limit.

Not by `asyncio.wait_for`: in Python 3.11 it swallows a cancellation that comes just as what it waits for is
done, and whoever was told to stop goes on for ever. Timeouts of a block have no such gap.
"""

from __future__ import annotations

import asyncio


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Until the event is set or the time is over; whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
