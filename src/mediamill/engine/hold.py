"""Hold and release all jobs of an owner (a bot that stops and comes back)."""

from __future__ import annotations

from mediamill.db.connection import Connection
from mediamill.engine import store


async def hold_owner(connection: Connection, owner: str) -> int:
    """Nothing of this owner is claimed from now on; what runs saves its result. How many jobs are held."""
    await store.jobs.hold_owner.run(connection, owner=owner)
    return await store.jobs.hold_jobs.run(connection, owner=owner)


async def release_owner(connection: Connection, owner: str) -> int:
    """The owner is back: what was held becomes claimable, results that waited are delivered. How many were held."""
    await store.jobs.release_owner.run(connection, owner=owner)
    rows = await store.jobs.release_jobs.rows(connection, owner=owner)
    return sum(row["jobs"] for row in rows)


async def forget_owner(connection: Connection, owner: str) -> int:
    """There is no such owner any more: its jobs that do not run are thrown away, results too. How many."""
    await store.jobs.release_owner.run(connection, owner=owner)
    return await store.jobs.drop_jobs_of_owner.run(connection, owner=owner)
