"""The janitor of a bucket: objects whose names are gone, after some days, and objects that never got one; and names
whose objects are gone.

Those who delete take turns by row locks. An object without a name is looked at first and its rows afterwards, and it is
older than whoever puts one may take to name it (`bucket.py`): what is being written now is never deleted.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from mediamill.db.connection import Database
from mediamill.storage.bucket import ORPHAN_SECONDS, BucketStorage
from mediamill.storage.store import queries

log = logging.getLogger(__name__)

BATCH = 1_000
SHARDS = tuple(f"{shard:02x}" for shard in range(256))


async def delete_garbage(database: Database, storage: BucketStorage, older_than_seconds: float) -> int:
    """Objects whose names went so long ago. How many."""
    deleted = 0
    while True:
        async with database.transaction() as connection:
            rows = await queries.old_garbage.rows(
                connection, older_than_seconds=float(older_than_seconds), batch=BATCH
            )
            keys = [row["key"] for row in rows]
            if keys:
                await storage.objects.delete(keys)
                await queries.forget_garbage.run(connection, keys=keys)
        deleted += len(keys)
        if len(keys) < BATCH:
            return deleted


async def delete_orphans(
    database: Database, storage: BucketStorage, older_than_seconds: float = ORPHAN_SECONDS
) -> int:
    """Objects that nothing names and nothing ever will. How many."""
    older_than, deleted = datetime.now(UTC) - timedelta(seconds=older_than_seconds), 0
    for shard in SHARDS:
        async for listed in storage.objects.list(shard):
            old = [one.key for one in listed if one.changed_at < older_than]
            if not old:
                continue
            async with database.connection() as connection:
                known = {row["key"] for row in await queries.known_keys.rows(connection, keys=old)}
            if orphans := [key for key in old if key not in known]:
                await storage.objects.delete(orphans)
                deleted += len(orphans)
    if deleted:
        log.info("bucket: %d objects that nothing names are deleted", deleted)
    return deleted


async def list_broken(database: Database, storage: BucketStorage) -> list[str]:
    """Names of files of which an object is missing or has another size: the whole bucket is listed for it."""
    broken: set[str] = set()
    for shard in SHARDS:
        async with database.connection() as connection:
            rows = await queries.pieces_in_shard.rows(connection, shard=shard)
        there: dict[str, int] = {}
        if rows:
            async for listed in storage.objects.list(shard):
                there |= {one.key: one.bytes for one in listed}
        broken |= {row["name"] for row in rows if there.get(row["key"]) != row["bytes"]}
    return sorted(broken)
