"""How attempts ended and how long they took: counted in the transaction that ends them, for every process alike."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine import store

# Upper bounds in seconds; the function attempt_bucket of the database has the same.
BOUNDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


class Outcome(enum.StrEnum):
    """How an attempt ended. Whatever is claimed ends in exactly one of these."""

    COMPLETED = "completed"
    FAILED = "failed"  # and will be tried again
    DEAD = "dead"
    PUT_OFF = "put_off"
    HANDED_BACK = "handed_back"
    REROUTED = "rerouted"
    RELEASED = "released"  # taken back: its worker was gone, or it made no progress


# Those that did the work, so that their duration means something.
TIMED = (Outcome.COMPLETED, Outcome.FAILED, Outcome.DEAD)


async def tally(
    connection: Connection, outcome: Outcome, rows: Sequence[Record], *, pool: str | None = None
) -> None:
    """Attempts that ended without a result. The rows are of the table of jobs; `pool`: the one of before."""
    if rows:
        await store.jobs.tally_attempts.run(
            connection,
            outcome=outcome,
            kinds=[row["kind"] for row in rows],
            pools=[pool or row["pool"] for row in rows],
            claimed=[row["claimed_at"] for row in rows],
        )


@dataclass(slots=True)
class Ended:
    """Attempts of one kind and pool that ended alike; `buckets`: one more than there are bounds."""

    kind: str
    pool: str
    outcome: Outcome
    count: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


async def list_ended(connection: Connection) -> list[Ended]:
    """All attempts that ended since the beginning."""
    return gather_ended(await store.watch.list_attempts.rows(connection))


def gather_ended(rows: Iterable[Record]) -> list[Ended]:
    """One for each kind, pool and outcome."""
    found: dict[tuple[str, str, str], Ended] = {}
    for row in rows:
        key = (row["kind"], row["pool"], row["outcome"])
        ended = found.setdefault(key, Ended(key[0], key[1], Outcome(key[2])))
        ended.count += row["count"]
        ended.seconds += row["seconds"]
        ended.buckets[row["bucket"]] += row["count"]
    return list(found.values())


async def count_claims(connection: Connection) -> dict[str, int]:
    """Claims ever made, by pool."""
    return {row["pool"]: row["claims"] for row in await store.watch.count_claims.rows(connection)}
