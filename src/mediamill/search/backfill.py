"""What should be found and is not, or is found and should not be: put right from time to time, in one process of all.

Whatever changes a thing changes its entries in the same transaction. This is for what was there before there was a
search, for entries that were lost, and for names that changed elsewhere. Each feature brings a filler of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from mediamill.db.connection import LOST, Database
from mediamill.engine.recovery.sweep import take_turn

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0

Filler = Callable[[Database], Awaitable[int]]  # how many things it put right, in batches, a commit after each


async def fill_forever(database: Database, every_seconds: float, fillers: Mapping[str, Filler]) -> None:
    """The background task of the server. The first round is at its start, unless another server has just done it."""
    while True:
        try:
            if await take_turn(database, "search_fill_turn", every_seconds):
                await fill(database, fillers)
        except LOST as error:
            log.debug("filling search: the database is away: %s", error)
        except Exception:
            log.exception("filling search failed")
        await asyncio.sleep(min(LOOK_SECONDS, every_seconds))


async def fill(database: Database, fillers: Mapping[str, Filler]) -> int:
    """All of them, once; one that fails does not keep the others from it. How many things were put right."""
    total = 0
    for name, filler in fillers.items():
        try:
            count = await filler(database)
        except LOST:
            raise
        except Exception:
            log.exception("filling search with %s failed", name)
            continue
        if count:
            log.info("search: %d %s were put right", count, name)
        total += count
    return total
