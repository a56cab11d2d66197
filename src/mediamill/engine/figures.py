"""Everything that /metrics tells of the database: whichever server reads it, it is the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine import store, watch
from mediamill.engine.attempts import Ended, count_claims, list_ended

ALERT_STATES = ("waiting", "failing", "sent", "given_up")


@dataclass(frozen=True, slots=True)
class Figures:
    """Gauges and totals; names as keys."""

    states: dict[str, int]
    dead: dict[str, int]
    depths: dict[str, int]
    oldest_seconds: dict[str, float]
    claims: dict[str, int]
    workers: dict[str, int]
    completed: int
    failed: int
    counters: dict[str, int]
    ended: list[Ended]
    alerts: dict[str, int]
    chores: dict[str, float]
    database: dict[str, Any]


async def read_figures(connection: Connection) -> Figures:
    """All of it."""
    pools = await watch.pool_depths(connection)
    totals = await watch.totals(connection)
    chores = await last_runs(connection)
    return Figures(
        states=await watch.count_states(connection),
        dead=await watch.count_dead_by_reason(connection),
        depths={pool["pool"]: pool["queued"] for pool in pools},
        oldest_seconds={pool["pool"]: _age(pool["oldest_at"]) for pool in pools},
        claims=await count_claims(connection),
        workers=await watch.count_workers(connection),
        completed=totals["completed"],
        failed=totals["failed"],
        counters=await watch.counters(connection),
        ended=await list_ended(connection),
        alerts={
            state: number for state, number in (await alerts(connection)).items() if state in ALERT_STATES
        },
        chores={chore: at.timestamp() for chore, at in chores.items()},
        database=await database_use(connection),
    )


async def alerts(connection: Connection) -> dict[str, Any]:
    """The outbox: how many wait, fail, were sent or given up; and the last error."""
    row = await store.alerts.count_alerts.row(connection)
    assert row is not None
    return dict(row)


async def last_runs(connection: Connection) -> dict[str, datetime]:
    """When each chore that one process does for all was last begun."""
    return {row["chore"]: row["at"] for row in await store.watch.last_turns.rows(connection)}


async def database_use(connection: Connection) -> dict[str, Any]:
    """Connections, size and the oldest transaction."""
    row = await store.watch.database_use.row(connection)
    assert row is not None
    return dict(row)


def _age(since: datetime | None) -> float:
    return 0.0 if since is None else max(0.0, (datetime.now(UTC) - since).total_seconds())
