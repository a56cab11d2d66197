"""When the janitor of the bucket comes round."""

from __future__ import annotations

import asyncio
import logging

from mediamill.db.connection import LOST, Database
from mediamill.engine.recovery.sweep import take_turn
from mediamill.errors import MediamillError
from mediamill.settings import Settings
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.owner import own_bucket
from mediamill.storage.sweep import delete_garbage, delete_orphans

log = logging.getLogger(__name__)

DAY_SECONDS = 86_400.0


async def sweep_bucket_forever(database: Database, storage: BucketStorage, settings: Settings) -> None:
    """The background task of the server. The bucket is listed once a day, by whichever server comes first."""
    while True:
        try:
            await asyncio.to_thread(storage.cache.evict)
            if await own_bucket(database, storage):
                await delete_garbage(database, storage, settings.bucket_keep_days * DAY_SECONDS)
                if await take_turn(database, "bucket_list_turn", DAY_SECONDS):
                    await delete_orphans(database, storage)
        except LOST as error:
            log.debug("bucket: the database is away: %s", error)
        except MediamillError as error:
            log.warning("the sweep of the bucket: %s", error.message)
        except Exception:
            log.exception("the sweep of the bucket failed")
        await asyncio.sleep(settings.janitor_seconds)
