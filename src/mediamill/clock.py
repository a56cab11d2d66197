"""Waiting: with a limit, for a thread that must not be left alone, for as long as a server asks, and between two tries.

The limit is not kept by `asyncio.wait_for`: in Python 3.11 it swallows a cancellation that comes just as what it waits
for is done, and whoever was told to stop goes on for ever. Timeouts of a block have no such gap.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

SPREAD = 0.5  # of a pause is by chance


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Until the event is set or the time is over; whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def to_its_end(work: Awaitable[None], *, quietly: bool = False) -> None:
    """Whoever is cancelled meanwhile waits: a file must not be closed under a thread that writes to it."""
    working = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    failure = working.exception()
    if cancelled is not None:
        raise cancelled
    if failure is not None and not quietly:
        raise failure


def pauses(
    first_seconds: float, longest_seconds: float, chance: Callable[[], float] = random.random
) -> Iterator[float]:
    """Seconds to wait before each next try. Partly by chance, so that many who lost a server do not return as one."""
    step = first_seconds
    while True:
        yield step * (1 - SPREAD * chance())
        step = min(2 * step, longest_seconds)


def retry_after_seconds(header: str | None) -> float | None:
    """What a server's Retry-After asks for: seconds or a date, as RFC 9110 has it; None if it says nothing."""
    if header is None or not header.strip():
        return None
    try:
        return min(max(0.0, float(header)), 1e6)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
