"""Attempts that were stopped because they made no progress: the claim is released, no failure is recorded."""

from __future__ import annotations

from mediamill.db.connection import Database
from mediamill.engine import store
from mediamill.engine.model import ClaimedJob, Failure
from mediamill.engine.pools import Pool
from mediamill.engine.recovery.release import release_claims
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Fate, fail_in_any_case, warn_of_missing


async def fail_or_release(
    database: Database, engine: Engine, job: ClaimedJob, failure: Failure, pool: Pool
) -> Fate:
    """An attempt that did not succeed: failed, or stopped because it stalled. Then the next one resumes its work."""
    if not failure.stalled:
        return await fail_in_any_case(database, engine, job, failure, pool)
    async with database.transaction() as connection:
        rows = await store.jobs.lock_claims.rows(
            connection, ids=[job.id], tokens=[job.token], worker_id=job.worker_id
        )
        if not rows:
            await warn_of_missing(connection, [job])
            return Fate.LOST
        await store.recovery.count.run(connection, name="stalled", amount=1)
        await release_claims(connection, engine, rows, failure)
        waits = await store.jobs.existing_jobs.rows(connection, ids=[job.id])
    return Fate.AGAIN if waits else Fate.DEAD
