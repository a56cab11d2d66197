"""A page of jobs costs one bounded look, however many there are and whatever is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mediamill.engine import store
from mediamill.engine.browse import NEWEST, SPAN
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = ("jobs", "finished_jobs", "dead_jobs", "events")
FILL = (
    "insert into jobs (kind, pool, owner, state, priority, payload, max_attempts, run_after, lease_expires_at) "
    "select 'test.plain', 'default', 'owner ' || n % 1000, case when n <= 300 then "
    "(array['running', 'scheduled', 'held', 'completed'])[1 + n % 4] else 'queued' end, 1, '{}', 3, now(), now() "
    "from generate_series(1, 80000) n",
    "insert into finished_jobs (id, kind, pool, owner, priority, attempts, created_at) "
    "select 1000000 + n, 'test.plain', 'default', 'owner ' || n % 1000, 1, 1, now() from generate_series(1, 250000) n",
    "insert into dead_jobs (id, kind, pool, owner, priority, payload, attempts, max_attempts, token, created_at, "
    "reason, error) select 3000000 + n, 'test.plain', 'default', 'owner', 1, '{}', 3, 3, 1, now(), 'permanent', 'no' "
    "from generate_series(1, 60000) n",
    "insert into events (topic, subject, data) select 'job.progress', n::text, jsonb_build_object('id', n) "
    "from generate_series(1, 60000) n",
)
LOOK = {
    "state": None,
    "kind": None,
    "pool": None,
    "owner": None,
    "before": NEWEST,
    "least": 0,
    "span": SPAN,
    "amount": 51,
}
HERE = {"hot": True, "finished": True, "dead": True}
DEAD = {
    "kind": None,
    "pool": None,
    "owner": None,
    "reason": None,
    "before": NEWEST,
    "least": 0,
    "span": SPAN,
    "amount": 26,
}
MARKED = {"kind": None, "pool": None, "owner": None, "before": NEWEST, "amount": 51}
CASES = [
    Case(store.browse.look_at_jobs, {**LOOK, **HERE}, 3 * 51, "all"),
    Case(
        store.browse.look_at_jobs, {**LOOK, **HERE, "kind": "no such"}, 3 * SPAN, "a kind that there is not"
    ),
    Case(store.browse.look_at_jobs, {**LOOK, **HERE, "owner": "owner 7"}, 3 * SPAN, "one owner"),
    Case(
        store.browse.look_at_jobs,
        {**LOOK, "hot": True, "finished": False, "dead": False, "state": "queued", "before": 60_000},
        51,
        "queued",
    ),
    Case(store.browse.end_of_look, {**HERE, "before": NEWEST, "span": SPAN}, 3 * SPAN),
    *(
        Case(store.browse.look_at_marked, {**MARKED, "state": state}, 300, state)
        for state in ("running", "scheduled", "held", "completed")
    ),
    Case(store.browse.look_at_dead, DEAD, 26, "all"),
    Case(store.browse.look_at_dead, {**DEAD, "reason": "no such"}, SPAN, "a reason that there is not"),
    Case(store.browse.events_of_job, {"job_id": 59_999, "span": 5_000, "amount": 30}, 5_000),
    Case(store.browse.latest_events, {"span": 5_000, "amount": 12}, 5_000),
]


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    """Explained once for all cases."""
    with explained(server_url, FILL, TABLES, CASES) as found:
        yield found


@each(CASES)
def test_a_look_touches_no_more_than_its_span(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)
