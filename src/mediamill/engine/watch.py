"""Looking at the engine: one job, depths, throughput. Reads only; doors and pages call these."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.dead import UnknownJobError
from mediamill.engine.model import DEAD_REASONS, WorkerState


async def pools_with_work(connection: Connection, pools: Sequence[str]) -> list[tuple[str, int]]:
    """The pools among these in which jobs wait, with each priority at which they do."""
    rows = await store.watch.pools_with_work.rows(connection, pools=list(pools))
    return [(row["pool"], row["priority"]) for row in rows]


async def show_job(connection: Connection, job_id: int) -> dict[str, Any]:
    """All that is known of one job, wherever it is."""
    for query, state in (
        (store.watch.show_job, None),
        (store.watch.show_finished, "finished"),
        (store.watch.show_dead, "dead"),
    ):
        row = await query.row(connection, id=job_id)
        if row is not None:
            return {**store.plain(row), **({"state": state} if state else {})}
    raise UnknownJobError(f"there is no job {job_id}", fix="mediamill jobs list shows the jobs there are")


async def job_states(connection: Connection, ids: Sequence[int]) -> dict[int, str | None]:
    """The state of each of these jobs; None for one that there is not (any more)."""
    rows = await store.watch.job_states.rows(connection, ids=list(ids))
    return {row["id"]: row["state"] for row in rows}


async def job_progress(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """State, step and percent of those of these jobs that have not ended."""
    rows = await store.watch.job_progress.rows(connection, ids=list(ids))
    return {row["id"]: dict(row) for row in rows}


async def is_served(connection: Connection) -> bool:
    """Is there a worker that lives and serves all pools?"""
    return bool(await store.watch.is_served.value(connection, lock_class=store.WORKER_LOCKS))


async def oldest_transaction(connection: Connection) -> dict[str, Any] | None:
    """The transaction that has been open for longest, if any is."""
    row = await store.watch.oldest_transaction.row(connection)
    return None if row is None else dict(row)


async def pool_depths(connection: Connection) -> list[dict[str, Any]]:
    """How many jobs of each pool wait, run, are held; and since when the oldest waits."""
    return [dict(row) for row in await store.watch.count_by_pool.rows(connection)]


async def depth_of_pool(connection: Connection, pool: str, most: int = 10_000) -> int:
    """How many jobs of a pool wait, counted up to `most`: cheap enough to be asked all the time."""
    return int(await store.watch.depth_of_pool.value(connection, pool=pool, most=most))


async def throughput(connection: Connection, minutes: int = 60) -> list[dict[str, Any]]:
    """Jobs completed and failed per minute and pool."""
    return [dict(row) for row in await store.watch.throughput_since.rows(connection, minutes=minutes)]


async def counters(connection: Connection) -> dict[str, int]:
    """Stale jobs recovered, retries exhausted, failures in all."""
    found = {row["name"]: row["value"] for row in await store.recovery.list_counters.rows(connection)}
    return {
        name: found.get(name, 0) for name in ("stale_recovered", "stalled", "retries_exhausted", "failures")
    }


async def overview(connection: Connection) -> dict[str, Any]:
    """The figures of the first page."""
    return {
        "states": await count_states(connection),
        "dead": await store.watch.count_dead.value(connection),
        "counters": await counters(connection),
        "pools": await pool_depths(connection),
        "waits": [dict(row) for row in await store.watch.list_waits.rows(connection)],
    }


async def count_states(connection: Connection) -> dict[str, int]:
    """How many jobs that have not ended are in each state."""
    found = {row["state"]: row["jobs"] for row in await store.watch.count_by_state.rows(connection)}
    return {name: found.get(name, 0) for name in ("queued", "scheduled", "running", "held", "completed")}


async def count_dead_by_reason(connection: Connection) -> dict[str, int]:
    """The dead letter; every reason that the engine gives, and those of older versions."""
    found = {row["reason"]: row["jobs"] for row in await store.watch.count_dead_by_reason.rows(connection)}
    return {reason: found.get(reason, 0) for reason in sorted({*DEAD_REASONS, *found})}


async def count_pending(connection: Connection) -> int:
    """Jobs that wait, now or until their time comes."""
    return int(await store.watch.count_pending.value(connection))


async def totals(connection: Connection) -> dict[str, int]:
    """Jobs completed and failed since the beginning."""
    row = await store.watch.totals.row(connection)
    assert row is not None
    return dict(row)


async def count_workers(connection: Connection) -> dict[str, int]:
    """How many workers are in each state."""
    found = {row["state"]: row["workers"] for row in await store.watch.count_workers.rows(connection)}
    return {state.value: found.get(state.value, 0) for state in WorkerState}


async def database_facts(connection: Connection) -> dict[str, Any]:
    """Version and size of the database."""
    return {
        "version": await store.watch.database_version.value(connection),
        "size_bytes": await store.watch.database_size.value(connection),
    }


async def database_clock(connection: Connection) -> datetime:
    """What time it is there."""
    at: datetime = await store.watch.database_clock.value(connection)
    return at


async def held_owners(connection: Connection) -> list[dict[str, Any]]:
    """Owners on hold, since when, and how many of their jobs wait for them."""
    return [dict(row) for row in await store.jobs.list_held_owners.rows(connection)]


async def subjects_at_work(connection: Connection, subject_ids: Sequence[str]) -> set[str]:
    """Which of these subjects a job still names."""
    rows = await store.watch.subjects_at_work.rows(connection, subject_ids=list(subject_ids))
    return {row["subject_id"] for row in rows}


async def results_of(connection: Connection, ids: Sequence[int]) -> dict[int, str | None]:
    """The jobs among these that can still be looked up, with their results as JSON text."""
    rows = await store.watch.results_of.rows(connection, ids=ids)
    return {row["id"]: row["result"] for row in rows}
