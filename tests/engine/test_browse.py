"""Leafing through jobs: every filter, page by page, nothing twice and nothing left out, also by small looks."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from mediamill.engine import browse
from mediamill.engine.browse import browse_dead, browse_jobs, events_of_job, latest_events, sum_up_dead
from tests.engine.conftest import Bench

FILL = """
with one as (
    insert into jobs (kind, pool, owner, state, priority, payload, max_attempts, run_after, lease_expires_at)
    select 'k' || n % 3, 'p' || n % 2, 'o' || n % 5,
        (array['queued', 'running', 'scheduled', 'held', 'completed', 'queued', 'queued'])[1 + n % 7], 1, '{}', 3,
        now(), now()
    from generate_series(1, 60) n
)
insert into finished_jobs (id, kind, pool, owner, priority, attempts, created_at)
select 1000 + n * 2, 'k' || n % 3, 'p' || n % 2, 'o' || n % 5, 1, 1, now() from generate_series(1, 40) n
"""
DEAD = """
insert into dead_jobs (id, kind, pool, owner, priority, payload, attempts, max_attempts, token, created_at, reason,
    error)
select 1001 + n * 2, 'k' || n % 3, 'p' || n % 2, 'o' || n % 5, 1, '{}', 3, 3, 1, now(),
    (array['permanent', 'no_retry'])[1 + n % 2], 'no' from generate_series(1, 40) n
"""
ALL = """
select id, kind, pool, owner, state from jobs
union all select id, kind, pool, owner, 'finished' from finished_jobs
union all select id, kind, pool, owner, 'dead' from dead_jobs
"""


async def fill(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        await connection.execute(FILL)
        await connection.execute(DEAD)


async def leaf(bench: Bench, verb: Any, **given: Any) -> list[int]:
    """All pages of it, one after the other."""
    ids: list[int] = []
    before: int | None = None
    while True:
        async with bench.database.connection() as connection:
            page = await verb(connection, before=before, **given)
        ids += [job["id"] for job in page.jobs]
        if page.next is None:
            return ids
        assert before is None or page.next < before
        before = page.next


@pytest.mark.parametrize("span", [7, 1_000])
@pytest.mark.parametrize("seconds", [0.0, 60.0])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"state": "queued"},
        {"state": "running"},
        {"state": "held", "owner": "o3"},
        {"state": "finished"},
        {"state": "dead", "kind": "k1"},
        {"kind": "k2", "pool": "p1"},
        {"owner": "o4"},
        {"owner": "nobody"},
    ],
    ids=lambda given: " ".join(f"{name}={value}" for name, value in given.items()) or "all",
)
async def test_every_job_that_fits_is_on_one_page_newest_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, filters: dict[str, str], span: int, seconds: float
) -> None:
    await fill(bench)
    monkeypatch.setattr(browse, "LOOK_SECONDS", seconds)
    async with bench.database.connection() as connection:
        rows = await connection.fetch(ALL)
    fitting = [row["id"] for row in rows if all(row[name] == value for name, value in filters.items())]
    found = await leaf(bench, browse_jobs, amount=10, span=span, **filters)
    assert found == sorted(fitting, reverse=True)


class Moving:
    """A connection beside which others work: between any two statements some jobs of somebody else end."""

    def __init__(self, connection: Any, owner: str) -> None:
        self._connection, self._owner = connection, owner

    async def fetch(self, *words: Any) -> Any:
        return await self._after(self._connection.fetch(*words))

    async def fetchval(self, *words: Any) -> Any:
        return await self._after(self._connection.fetchval(*words))

    async def _after(self, asked: Awaitable[Any]) -> Any:
        answer = await asked
        await self._connection.execute(
            "delete from jobs where id in (select id from jobs where owner <> $1 order by id desc limit 8)",
            self._owner,
        )
        return answer


async def test_no_job_is_left_out_while_others_end(bench: Bench) -> None:
    await fill(bench)
    async with bench.database.connection() as connection:
        await connection.execute("update jobs set state = 'queued'")
        rows = await connection.fetch("select id from jobs where owner = 'o4' order by id desc")
        moving: Any = Moving(connection, "o4")
        page = await browse_jobs(moving, state="queued", owner="o4", amount=100, span=7, patient=True)
    assert [job["id"] for job in page.jobs] == [row["id"] for row in rows]


async def test_dead_jobs_are_found_by_reason_kind_pool_and_owner_and_summed_up(bench: Bench) -> None:
    await fill(bench)
    found = await leaf(bench, browse_dead, amount=3, span=5, reason="permanent", pool="p0")
    assert found == [1001 + n * 2 for n in range(40, 0, -1) if n % 2 == 0]
    async with bench.database.connection() as connection:
        (job,) = (await browse_dead(connection, owner="o1", kind="k1", reason="no_retry", amount=1)).jobs
        sums = await sum_up_dead(connection)
        assert sum(row["jobs"] for row in await sum_up_dead(connection, most=7)) == 7
    assert (job["owner"], job["reason"], job["error"]) == ("o1", "no_retry", "no")
    assert sum(row["jobs"] for row in sums) == 40
    assert {row["reason"] for row in sums} == {"permanent", "no_retry"}


async def test_the_latest_events_of_a_job_and_of_all(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        await connection.execute(
            "insert into events (topic, subject, data) select "
            "case when n % 2 = 0 then 'job.progress' else 'job.failed' end, "
            "'s', jsonb_build_object('id', n % 4) from generate_series(1, 40) n"
        )
        told = await events_of_job(connection, 1, amount=3)
        assert [event["topic"] for event in told] == ["job.failed"] * 3
        assert told[0]["id"] > told[1]["id"]
        assert {event["topic"] for event in await latest_events(connection)} == {"job.failed"}
