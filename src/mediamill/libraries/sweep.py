"""What libraries need from time to time, in one process of all: lost jobs, other rules, other taggers, garbage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mediamill.db.connection import LOST, Database
from mediamill.engine.recovery.sweep import take_turn
from mediamill.engine.rules import Engine
from mediamill.libraries.collect import collect_garbage
from mediamill.libraries.feed import forget_lost_jobs
from mediamill.libraries.invalidate import invalidate_scenes
from mediamill.libraries.retag import let_go_of_outdated_jobs
from mediamill.settings import Settings
from mediamill.storage.choose import storage_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0


async def sweep_libraries(database: Database) -> None:
    """All of it but the garbage, once; what fails does not keep the rest from being done."""
    await _try(lambda: forget_lost_jobs(database), "assets of lost jobs")
    await _try(lambda: let_go_of_outdated_jobs(database), "jobs of other models or folders")
    await _try(lambda: invalidate_scenes(database), "scenes of other rules")


async def sweep_libraries_forever(database: Database, engine: Engine, settings: Settings) -> None:
    """The background task of the server. The first round is at its start, unless another server has just done it."""
    storage, days = storage_of(settings), settings.library_vanished_days
    while True:
        try:
            if await take_turn(database, "library_sweep_turn", engine.sweep_seconds):
                await sweep_libraries(database)
            if await take_turn(database, "library_collect_turn", engine.janitor_seconds):
                await _try(lambda: collect_garbage(database, storage, vanished_days=days), "garbage")
        except LOST as error:
            log.debug("libraries: the database is away: %s", error)
        except Exception:
            log.exception("the sweep of libraries failed")
        await asyncio.sleep(min(LOOK_SECONDS, engine.sweep_seconds))


async def _try(verb: Callable[[], Awaitable[object]], what: str) -> None:
    try:
        await verb()
    except LOST:
        raise
    except Exception:
        log.exception("libraries: %s: the sweep failed", what)
