"""Objects put into a bucket, dropped, and listed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mediamill.db.connection import Database
from mediamill.storage.bucket import BucketStorage


def local(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


async def put(storage: BucketStorage, database: Database, path: Path, name: str) -> None:
    sent = await storage.send(path)
    async with database.transaction() as connection:
        await storage.give_name(connection, sent, name)


async def drop(storage: BucketStorage, database: Database, name: str) -> None:
    async with database.transaction() as connection:
        await storage.drop(connection, name)


async def keys(storage: BucketStorage) -> set[str]:
    return {
        one.key for shard in range(256) async for some in storage.objects.list(f"{shard:02x}") for one in some
    }
