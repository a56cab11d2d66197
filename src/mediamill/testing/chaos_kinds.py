"""Job kinds of the chaos run: each records its end once per job in a table, and would show a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine.kinds import JobKind, Run
from mediamill.engine.model import Moved
from mediamill.errors import RetryLaterError

TABLE = """
create table if not exists chaos_deliveries (
    number integer primary key,
    times integer not null default 1,
    attempts integer not null,
    at timestamptz not null default now()
)
"""
RECORD = """
insert into chaos_deliveries (number, attempts) values ($1, $2)
on conflict (number) do update set times = chaos_deliveries.times + 1
"""


async def _work(run: Run) -> Any:
    given = run.payload
    if given.get("fail_first") and run.job.attempts == 1:
        raise RetryLaterError("told to fail the first time")
    await asyncio.sleep(float(given.get("seconds", 0)))
    return {"number": given["number"]}


async def _record(connection: Connection, moved: Sequence[Moved]) -> None:
    for job in moved:
        await connection.execute(RECORD, int(job.payload["number"]), job.attempts)


KINDS = (
    JobKind("chaos.settled", handler=_work, on_completed=_record, description="Recorded as the job settles."),
    JobKind(
        "chaos.delivered", handler=_work, deliver=_record, description="Recorded as the result is delivered."
    ),
    JobKind(
        "chaos.processed",
        on_completed=_record,
        description="Runs in a child process; recorded as it settles.",
    ),
)
