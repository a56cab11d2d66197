"""Jobs of a worker, and finished files that it wants to be kept for them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.model import ClaimedJob, NewJob
from mediamill.engine.pools import list_pools
from mediamill.engine.workers import register_worker
from mediamill.staging.kept import NewKept, part_path

JOB = ClaimedJob(1234, 5, 1, "test.media", "default", "o", None, None, 1, 3, "{}", None)
DATA = b"a segment"
DIGEST = hashlib.sha256(DATA).hexdigest()


async def claim(database: Database, amount: int) -> list[ClaimedJob]:
    kinds = Kinds([JobKind("test.media")])
    async with database.transaction() as connection:
        await Enqueuer(kinds).enqueue_jobs(connection, [NewJob("test.media")] * amount)
        worker = await register_worker(connection, name="a")
        pools = await list_pools(connection)
        pool = next(pool for pool in pools if pool.name == "default")
        return await Claimer(worker, "a", kinds).claim_jobs(connection, pool, amount)


def new(data: Path, job: ClaimedJob, name: str = "v0.m4s", **more: Any) -> NewKept:
    path = part_path(data, job.id)
    path.write_bytes(DATA)
    return NewKept(name, path, **{"bytes": len(DATA), "sha256": DIGEST, **more})
