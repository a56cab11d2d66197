"""What a server does for libraries all the time goes on, whatever went wrong the last time."""

from __future__ import annotations

import asyncio
import os

import pytest

from mediamill.libraries import counts, erase, feed, rescan, retag, sweep
from mediamill.libraries.counts import count_forever
from mediamill.libraries.edit import edit_library
from mediamill.libraries.erase import erase_forever, mark_for_erasing
from mediamill.libraries.feed import feed_forever
from mediamill.libraries.rescan import rescan_forever
from mediamill.libraries.retag import retag_forever, set_tagger
from mediamill.libraries.sweep import sweep_libraries_forever
from tests.conftest import wait_until
from tests.failing_database import failing
from tests.intake.played import Ground as Whole
from tests.libraries.played import Ground, ground

__all__ = ["ground"]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (counts, "LOOK_SECONDS"),
        (erase, "LOOK_SECONDS"),
        (feed, "EVERY_SECONDS"),
        (rescan, "EVERY_SECONDS"),
        (retag, "EVERY_SECONDS"),
        (sweep, "LOOK_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.02)


async def test_each_of_them_comes_to_its_work_after_two_faults(ground: Ground) -> None:
    whole = Whole.on(ground.database, ground.data)  # which knows of scans as well
    await ground.library(images=1)
    await ground.library("Trashed", images=1)
    await ground.run("update assets set status = 'completed' where library = 2")
    await ground.library("Counted", images=1)
    await ground.run("update libraries set is_active = false where slug = 'counted'")
    await ground.run(
        "insert into library_counts (library, assets, was_moving, counted_at)"
        " select number, 1, false, now() - interval '2 hours' from libraries where slug = 'counted'"
    )
    await ground.remove("trashed")
    async with ground.database.transaction() as connection:
        await mark_for_erasing(connection, "trashed")
        await set_tagger(connection, ground.settings, "counted", "openai", "other")
        await edit_library(connection, "photos", rescan_seconds=60)
    await ground.run(
        "update libraries set scanned_at = now() - interval '1 hour', erasing_at = erasing_at - interval '1 minute'"
    )
    left = ground.make_folder(5, "7-1")
    os.utime(left, (0, 0))
    loops = {
        "erasing": erase_forever(failing(ground.database)),
        "feeding": feed_forever(failing(ground.database), ground.enqueuer, ground.settings),
        "scanning": rescan_forever(failing(ground.database), whole.enqueuer),
        "counting": count_forever(failing(ground.database)),
        "tagging": retag_forever(failing(ground.database)),
        "sweeping": sweep_libraries_forever(failing(ground.database), ground.engine, ground.settings),
    }
    done = {
        "erasing": "select count(*) = 0 from libraries where slug = 'trashed'",
        "feeding": "select count(*) > 0 from jobs where kind = 'library.image'",
        "scanning": "select count(*) > 0 from jobs where kind = 'library.scan'",
        "counting": "select count(*) = 0 from library_counts",
        "tagging": "select retag_after is null from libraries where slug = 'counted'",
    }
    tasks = {name: asyncio.create_task(loop, name=name) for name, loop in loops.items()}

    async def all_is_done() -> bool:
        ended = [name for name, task in tasks.items() if task.done()]
        assert not ended, f"{ended} ended by a fault"
        return not left.exists() and all([await ground.one(sql) for sql in done.values()])

    try:
        await wait_until(all_is_done)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
