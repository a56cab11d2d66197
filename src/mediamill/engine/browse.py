"""Leafing through jobs, newest first, by any filter, in a bounded time however many there are.

No index knows kinds and owners: an index is paid for by every claim. So a page is found by looks, each at so many rows
of each table, until it is full or its time is over (who is patient waits until it is full). Then it says from where to
look on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.model import State

SPAN = 20_000
LOOK_SECONDS = 0.4
NEWEST = 2**63 - 1
MOST_COUNTED = 100_000
MARKED = (State.RUNNING, State.SCHEDULED, State.HELD, State.COMPLETED)
EVENT_SPAN = 5_000

Rows = list[dict[str, Any]]
Look = Callable[[int, int, int], Awaitable[Rows]]


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs; `next` is the `before` of what follows, None at the end. A page may be short before the end."""

    jobs: Rows
    next: int | None


async def browse_jobs(
    connection: Connection,
    *,
    state: str | None = None,
    kind: str | None = None,
    pool: str | None = None,
    owner: str | None = None,
    before: int | None = None,
    amount: int = 50,
    patient: bool = False,
    span: int = SPAN,
) -> Page:
    """Jobs of all states, or of one."""
    given = {"state": state, "kind": kind, "pool": pool, "owner": owner}
    if state in MARKED:
        rows = await store.browse.look_at_marked.rows(
            connection, **given, before=before or NEWEST, amount=amount + 1
        )
        return _cut([store.plain(row) for row in rows], amount)
    where = {
        "hot": state in (None, State.QUEUED),
        "finished": state in (None, State.FINISHED),
        "dead": state in (None, State.DEAD),
    }

    async def look(below: int, least: int, wanted: int) -> Rows:
        rows = await store.browse.look_at_jobs.rows(
            connection, **given, **where, before=below, least=least, span=span, amount=wanted
        )
        return [store.plain(row) for row in rows]

    return await _leaf(connection, look, where, before or NEWEST, amount, span, patient)


async def browse_dead(
    connection: Connection,
    *,
    kind: str | None = None,
    pool: str | None = None,
    owner: str | None = None,
    reason: str | None = None,
    before: int | None = None,
    amount: int = 50,
    patient: bool = False,
    span: int = SPAN,
) -> Page:
    """Dead jobs, with the reason of each."""
    where = {"hot": False, "finished": False, "dead": True}

    async def look(below: int, least: int, wanted: int) -> Rows:
        rows = await store.browse.look_at_dead.rows(
            connection,
            kind=kind,
            pool=pool,
            owner=owner,
            reason=reason,
            before=below,
            least=least,
            span=span,
            amount=wanted,
        )
        return [store.plain(row) for row in rows]

    return await _leaf(connection, look, where, before or NEWEST, amount, span, patient)


async def payloads_of(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """What travels with these jobs; those that are finished are not there."""
    rows = await store.browse.payloads_of.rows(connection, ids=list(ids))
    return {row["id"]: json.loads(row["payload"]) for row in rows}


async def tracebacks_of(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """The whole tracebacks of these dead jobs, of those that have one."""
    rows = await store.browse.tracebacks_of.rows(connection, ids=list(ids))
    return {row["id"]: row["traceback"] for row in rows}


async def sum_up_dead(connection: Connection, most: int = MOST_COUNTED) -> Rows:
    """How many died of what, by reason and kind; of the newest `most`."""
    return [dict(row) for row in await store.browse.sum_up_dead.rows(connection, most=most)]


async def events_of_job(connection: Connection, job_id: int, amount: int = 30) -> Rows:
    """What was told of a job lately, newest first."""
    rows = await store.browse.events_of_job.rows(connection, job_id=job_id, span=EVENT_SPAN, amount=amount)
    return [store.plain(row) for row in rows]


async def latest_events(connection: Connection, amount: int = 12) -> Rows:
    """What happened lately; not how far each job is."""
    rows = await store.browse.latest_events.rows(connection, span=EVENT_SPAN, amount=amount)
    return [store.plain(row) for row in rows]


async def _leaf(
    connection: Connection,
    look: Look,
    where: dict[str, bool],
    before: int,
    amount: int,
    span: int,
    patient: bool,
) -> Page:
    found: Rows = []
    until = math.inf if patient else time.monotonic() + LOOK_SECONDS
    while True:
        end = int(await store.browse.end_of_look.value(connection, **where, before=before, span=span))
        found += await look(before, end, amount - len(found) + 1)
        if len(found) > amount:
            return _cut(found, amount)
        if end == 0 or time.monotonic() > until:
            return Page(found, end or None)
        before = end


def _cut(found: Rows, amount: int) -> Page:
    """One more than a page was asked for: if it is there, there is more."""
    page = found[:amount]
    return Page(page, page[-1]["id"] if len(found) > amount else None)
