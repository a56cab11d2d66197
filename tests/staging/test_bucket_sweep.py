"""The janitor of the bucket comes round, and outlives whatever meets it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.staging import bucket_sweep
from mediamill.staging.bucket_sweep import sweep_bucket_forever
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from mediamill.storage.sweep import delete_orphans
from tests.conftest import wait_until
from tests.storage.putting import drop, keys, local, put
from tests.storage.s3_server import S3Server, bucket, s3_server

__all__ = ["bucket", "s3_server"]


async def test_garbage_and_orphans_go_and_errors_are_told(
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
    database: Database,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(bucket_sweep, "delete_orphans", partial(delete_orphans, older_than_seconds=-60))
    assert bucket_sweep.DAY_SECONDS == 24 * 3600
    settings = s3_server.settings(tmp_path / "data", bucket, bucket_keep_days=1.0, janitor_seconds=0.01)
    storage = storage_of(settings)
    assert isinstance(storage, BucketStorage)
    for name in ("videos/1/old", "videos/1/young", "videos/1/kept"):
        await put(storage, database, local(tmp_path, name.encode()), name)
    old = await storage.open(database, "videos/1/old")
    assert old is not None
    for name in ("videos/1/old", "videos/1/young"):
        await drop(storage, database, name)

    async def run(sql: str, *more: object) -> None:
        async with database.connection() as connection:
            await connection.execute(sql, *more)

    await storage.send(local(tmp_path, b"its sender died"))
    await run("update stored_garbage set at = now() - interval '25 hours' where key = $1", old.pieces[0].key)
    await run("alter table stored_garbage rename to hidden")
    task = asyncio.create_task(sweep_bucket_forever(database, storage, settings))

    async def failed() -> bool:
        return "the sweep of the bucket failed" in caplog.text

    async def swept() -> bool:
        async with database.connection() as connection:
            return bool(await connection.fetchval("select count(*) = 1 from stored_garbage"))

    try:
        await wait_until(failed)
        await run("alter table hidden rename to stored_garbage")
        await wait_until(swept)
        assert not task.done()
        assert old.pieces[0].key not in await keys(storage)

        async def never_named_one_is_gone() -> bool:
            return len(await keys(storage)) == 2

        await wait_until(never_named_one_is_gone)
        await storage.send(local(tmp_path, b"its sender died too"))
        await run("update stored_garbage set at = now() - interval '25 hours'")

        async def swept_again() -> bool:
            async with database.connection() as connection:
                return bool(await connection.fetchval("select count(*) = 0 from stored_garbage"))

        await wait_until(swept_again)
        await run("alter table stored_garbage rename to hidden")
        caplog.clear()
        await wait_until(failed)  # the round of that garbage is over
        assert len(await keys(storage)) == 2, "the bucket is listed once a day"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
