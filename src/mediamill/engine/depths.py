"""How many jobs wait in each pool, in the log: at most once a minute, and only what changed much."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from mediamill.db.connection import LOST, Database
from mediamill.engine.watch import pool_depths
from mediamill.logs import tell

log = logging.getLogger(__name__)

REPORT_SECONDS = 60.0
LEAST_CHANGE = 10


def changed_much(before: int, now: int) -> bool:
    """By half of what it was, and by ten jobs at least."""
    return abs(now - before) >= max(LEAST_CHANGE, before // 2)


async def report_depths(database: Database, reported: Mapping[str, int]) -> dict[str, int]:
    """Report what changed much since it was reported. What is reported by now."""
    async with database.connection() as connection:
        waiting = {row["pool"]: row["queued"] for row in await pool_depths(connection)}
    news = {pool: now for pool, now in waiting.items() if changed_much(reported.get(pool, 0), now)}
    for pool, now in news.items():
        tell(log, "queue_depth_changed", pool=pool, waiting=now, before=reported.get(pool, 0))
    return {**reported, **news}


async def report_depths_forever(database: Database) -> None:
    """The background task of every server."""
    reported: dict[str, int] = {}
    while True:
        try:
            reported = await report_depths(database, reported)
        except LOST as error:
            log.debug("the queues cannot be counted: %s", error)
        except Exception:
            log.exception("the queues cannot be counted")
        await asyncio.sleep(REPORT_SECONDS)
