"""Other rules find other scenes: videos that were cut by other ones lose their scenes and are indexed again."""

from __future__ import annotations

import logging

from mediamill.db.connection import Database
from mediamill.libraries.store import queries
from mediamill.processors.video.scenes import SceneRules

log = logging.getLogger(__name__)

BATCH = 1_000


async def invalidate_scenes(database: Database, version: str | None = None) -> int:
    """How many videos. One with a job at hand waits until that is done; one whose file is gone keeps its scenes.

    What has no version was never cut into scenes, or is being indexed again.
    """
    version = version or SceneRules().segmentation_version
    total = 0
    while True:
        async with database.transaction() as connection:
            rows = await queries.invalidate_videos.rows(connection, version=version, batch=BATCH)
            ids = [row["id"] for row in rows]
            await queries.drop_scenes.run(connection, ids=ids)
        total += len(ids)
        if len(ids) < BATCH:
            break
    if total:
        log.info("libraries: %d videos are cut into scenes again, by the rules of today", total)
    return total
