"""The hot statements touch what they take, however much waits and however much has finished.

Each is measured with a little and with a lot in the tables, with one owner and with a thousand. No times: rows
that were looked at, and pages.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mediamill.db.connection import RawConnection, connect
from mediamill.db.queries import Query
from mediamill.engine import store
from mediamill.engine.claim import OWNER_WINDOW, connect_for_claims, connect_for_finishes
from tests.conftest import admin_url, clone_template, database_url, drop_database, run_sql
from tests.plans.measure import Measured, measure

FINISHED = {"little": 1_000, "much": 250_000, "sudden": 250_000}
# Sudden: as much, but the planner still has the statistics of the empty table.
WAITING = {"little": 2_000, "much": 60_000, "sudden": 60_000}
OWNERS = {"one owner": 1, "1,000 owners": 1_000}
# What does not grow: jobs that run, leases that are over, scheduled jobs that are due, held jobs of no held owner.
RUNNING, EXPIRED, DUE, HELD = 200, 80, 600, 40

FILL = """
    insert into jobs (kind, pool, owner, priority, state, payload, max_attempts, attempts, token, worker_id,
        run_after, lease_expires_at, subject_id)
    select 'test.plain', 'default', 'owner ' || n % {owners}, n % 3, '{state}', '{{"n": 1}}', 3, {attempts}, 7, 1,
        now() + interval '{after}', now() + interval '{lease}', 'subject ' || n
    from generate_series(1, {amount}) n
"""
FILL_FINISHED = """
    insert into finished_jobs (id, kind, pool, owner, priority, attempts, created_at, subject_id)
    select -n, 'test.plain', 'default', 'owner ' || n % 1000, 1, 1, now(), 'subject ' || n
    from generate_series(1, {amount}) n
"""


@dataclass(frozen=True)
class Case:
    """A statement, what it is given, how many rows it takes, and how many more it may look at."""

    query: Query
    takes: int
    given: dict[str, Any]
    connection: str = "ordinary"
    more: int = 0

    @property
    def name(self) -> str:
        return f"{self.query.name} ({self.connection})"


CLAIM = {
    "pool": "default",
    "worker_id": 1,
    "worker_name": "w",
    "owner_window": OWNER_WINDOW,
    "lease_seconds": 300,
}
# A claim may look at each owner of its window a few times, on both sides of the owner that it served last.
WINDOW = 4 * OWNER_WINDOW
CASES = [
    Case(store.jobs.claim_jobs, 1, {**CLAIM, "amount": 1, "last_owner": ""}, "claims", WINDOW),
    Case(store.jobs.claim_jobs, 50, {**CLAIM, "amount": 50, "last_owner": "owner 5"}, "claims", WINDOW),
    Case(store.jobs.is_waiting, 1, {"pool": "default"}, "claims"),
    Case(store.jobs.is_waiting, 1, {"pool": "another"}, "claims"),
    Case(store.jobs.look_for_chores, 1, {}),
    Case(store.jobs.look_for_chores, 1, {}, "ordinary, custom plans"),
    Case(store.watch.pools_with_work, 4, {"pools": ["default", "another"]}),
    Case(store.watch.pools_with_work, 4, {"pools": ["default", "another"]}, "ordinary, custom plans"),
    Case(store.jobs.promote_due, 500, {"batch": 500}),
    Case(store.jobs.promote_due, 500, {"batch": 500}, "ordinary, custom plans"),
    Case(store.recovery.lock_expired, 50, {"batch": 50, "startup_grace_seconds": 0}),
    Case(
        store.recovery.lock_expired, 50, {"batch": 50, "startup_grace_seconds": 0}, "ordinary, custom plans"
    ),
    Case(store.recovery.lock_exhausted, 0, {"batch": 50}),
    Case(store.jobs.release_stragglers, 40, {}),
    Case(store.jobs.hold_stragglers, 0, {}),
    Case(store.jobs.lock_results, 0, {"kinds": ["noop"], "batch": 100, "later": []}),
    *(
        Case(query, 100, {"ids": [], "tokens": [], "worker_id": 1, **more}, connection)
        for query, more, connections in (
            (store.jobs.finish_jobs, {"results": [None] * 100}, ("finishes", "ordinary")),
            (store.jobs.save_results, {"results": [None] * 100}, ("ordinary",)),
            (store.jobs.lock_claims, {}, ("ordinary",)),
            (
                store.jobs.extend_leases,
                {"lease_seconds": 300},
                ("claims", "ordinary", "ordinary, custom plans"),
            ),
        )
        for connection in connections
    ),
]
CONNECTIONS: dict[str, Callable[[str], Awaitable[RawConnection]]] = {
    "claims": connect_for_claims,
    "finishes": connect_for_finishes,
    "ordinary": lambda url: connect(url, plan_cache_mode="force_generic_plan"),
    "ordinary, custom plans": lambda url: connect(url, plan_cache_mode="force_custom_plan"),
}

Figures = dict[tuple[int, str, str], Measured]


async def fill(url: str, size: str, owners: int) -> list[int]:
    """Fill the hot table anew; the ids of jobs that run."""
    waiting = WAITING[size]
    await run_sql(
        url,
        "truncate jobs",
        "vacuum (analyze) jobs",
        FILL.format(state="queued", amount=waiting, owners=owners, attempts=0, after="0", lease="0"),
        FILL.format(
            state="scheduled", amount=waiting // 10, owners=owners, attempts=1, after="1 day", lease="0"
        ),
        FILL.format(state="scheduled", amount=DUE, owners=owners, attempts=1, after="-1 day", lease="0"),
        FILL.format(state="running", amount=RUNNING, owners=owners, attempts=1, after="0", lease="1 hour"),
        FILL.format(state="running", amount=EXPIRED, owners=owners, attempts=1, after="0", lease="-1 hour"),
        FILL.format(state="held", amount=HELD, owners=1, attempts=0, after="0", lease="0"),
        *([] if size == "sudden" else ["vacuum (analyze) jobs"]),
    )
    connection = await connect(url)
    try:
        rows = await connection.fetch(
            "select id from jobs where state = 'running' and lease_expires_at > now() order by id limit 100"
        )
    finally:
        await connection.close()
    return [row["id"] for row in rows]


async def measure_all(url: str) -> Figures:
    figures: Figures = {}
    await run_sql(
        url,
        "insert into workers (name, type, state) values ('w', 'local', 'offline')",
        "insert into held_owners (owner) values ('nobody')",
        "alter table jobs set (autovacuum_enabled = false)",
    )
    for size in WAITING:
        if size != "sudden":
            await run_sql(
                url,
                "truncate finished_jobs",
                FILL_FINISHED.format(amount=FINISHED[size]),
                "vacuum (analyze) finished_jobs",
            )
        for kind, owners in OWNERS.items():
            ids = await fill(url, size, owners)
            async with open_all(url) as connections:
                for number, case in enumerate(CASES):
                    given = dict(case.given)
                    if "ids" in given:
                        given |= {"ids": ids, "tokens": [7] * len(ids)}
                    figures[number, size, kind] = await measure(
                        connections[case.connection], case.query, **given
                    )
    return figures


@asynccontextmanager
async def open_all(url: str) -> AsyncIterator[dict[str, RawConnection]]:
    connections = {name: await open_(url) for name, open_ in CONNECTIONS.items()}
    try:
        yield connections
    finally:
        for connection in connections.values():
            await connection.close()


@pytest.fixture(scope="module")
def figures(server_url: str, template_url: str) -> Iterator[Figures]:
    admin, name = admin_url(server_url), f"plans_{os.getpid()}"
    asyncio.run(run_sql(admin, clone_template(name)))
    yield asyncio.run(measure_all(database_url(server_url, name)))
    asyncio.run(run_sql(admin, drop_database(name)))


EVERY = [
    pytest.param(number, kind, id=f"{case.name}, {case.takes}, {kind}")
    for (number, case), kind in itertools.product(enumerate(CASES), OWNERS)
]


@pytest.mark.spec("E2", "E8")
@pytest.mark.parametrize(("number", "kind"), EVERY)
@pytest.mark.parametrize("size", ["much", "sudden"])
def test_no_hot_table_is_scanned_and_few_rows_are_looked_at_in_vain(
    figures: Figures, number: int, kind: str, size: str
) -> None:
    case, much = CASES[number], figures[number, size, kind]
    assert much.returned == case.takes or case.takes == 0, much.plan
    assert much.whole_scans == [], much.plan
    assert much.examined <= 4 * case.takes + case.more + 20, much.plan


@pytest.mark.spec("E2", "E8")
@pytest.mark.parametrize(("number", "kind"), EVERY)
@pytest.mark.parametrize("size", ["much", "sudden"])
def test_the_pages_touched_do_not_grow_with_the_tables(
    figures: Figures, number: int, kind: str, size: str
) -> None:
    little, much = figures[number, "little", kind], figures[number, size, kind]
    assert much.buffers <= 2.5 * little.buffers + 50, much.plan
