"""The sweep of libraries: at the start, from time to time, and in one process of all."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from mediamill.libraries.sweep import sweep_libraries_forever
from mediamill.processors.video.scenes import SceneRules
from tests.conftest import wait_until
from tests.libraries.played import Ground, ground

__all__ = ["ground"]


@pytest.mark.spec("L8", "L16")
async def test_lost_jobs_other_rules_and_garbage_are_seen_to_at_the_start(ground: Ground) -> None:
    await ground.library(images=1, videos=1)
    await ground.feed()
    await ground.run("delete from jobs")
    old = SceneRules(debounce_seconds=2.0).segmentation_version
    await ground.run(
        "update assets set segmentation_version = $1, job_id = null, status = 'completed' where type = 'video'",
        old,
    )
    left = ground.make_folder(5, "7-1")
    os.utime(left, (time.time() - 7200,) * 2)
    sweeping = [
        asyncio.create_task(sweep_libraries_forever(ground.database, ground.engine, ground.settings))
        for _ in range(2)
    ]
    try:

        async def all_wait() -> bool:
            waiting = "select bool_and(status = 'pending' and job_id is null) from assets"
            return bool(await ground.one(waiting)) and not left.exists()

        await wait_until(all_wait)
    finally:
        for task in sweeping:
            task.cancel()
