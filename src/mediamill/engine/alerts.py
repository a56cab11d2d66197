"""Alerts are raised in the transaction that found the cause, and wait in a table until they are sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.model import ABANDONED, MAX_ATTEMPTS_EXHAUSTED
from mediamill.engine.rules import Engine

AlertType = Literal[
    "stale_job_recovered",
    "job_max_retries_exceeded",
    "job_failed",
    "job_failed_pattern",
    "worker_startup",
    "worker_shutdown",
]
WORKER_ALERTS = ("worker_startup", "worker_shutdown")


async def raise_alert(
    connection: Connection, engine: Engine, type_: AlertType, data: dict[str, Any], *, more: int = 0
) -> bool:
    """Raise an alert unless none is wanted or one of its type went out a short while ago.

    `more`: how many others of the type it stands for. Those that were not sent are summed up in the next one.
    """
    if not engine.alerts_on or (type_ in WORKER_ALERTS and not engine.alert_worker_events):
        return False
    raised = await store.alerts.raise_alert.value(
        connection,
        type=type_,
        data=json.dumps(data),
        more=more,
        rate_limit_seconds=engine.alert_rate_limit_seconds,
    )
    return raised is not None


async def list_alerts(connection: Connection, amount: int = 50) -> list[dict[str, Any]]:
    """Newest first; those that have arrived are kept for seven days."""
    return [store.plain(row) for row in await store.alerts.list_alerts.rows(connection, amount=amount)]


async def note_failures(connection: Connection, engine: Engine, rows: Sequence[Record]) -> None:
    """Failed attempts: counted for their subjects for good, whatever becomes of the jobs. Too many are an alert."""
    failed = [(row["kind"], subject, row) for row in rows if (subject := _failing(engine, row)) is not None]
    if not failed:
        return
    kinds, subjects, _ = zip(*failed, strict=True)
    counted = await store.alerts.note_failures.rows(connection, kinds=kinds, subjects=subjects)
    again = [row for row in counted if row["failures"] >= engine.alert_pattern_failures]
    if again:
        about = {(kind, subject): row for kind, subject, row in failed}
        first = about[again[0]["kind"], again[0]["subject"]]
        facts = {**_facts(first), "failures": again[0]["failures"]}
        await raise_alert(connection, engine, "job_failed_pattern", facts, more=len(again) - 1)


def _failing(engine: Engine, row: Record) -> str | None:
    """What the failures of a job are counted by."""
    counted_by = engine.kinds.find(row["kind"]).counted_by
    subject: str | None = row["subject_id"] if counted_by is None else counted_by(json.loads(row["payload"]))
    return subject


async def alert_of_deaths(
    connection: Connection, engine: Engine, rows: Sequence[Record], reason: str, error: str | None
) -> None:
    """Jobs that failed for good, for one reason: one alert for all of them."""
    first, more = rows[0], len(rows) - 1
    facts = {**_facts(first), "attempts": first["attempts"]}
    if reason == MAX_ATTEMPTS_EXHAUSTED:
        await raise_alert(connection, engine, "job_max_retries_exceeded", facts, more=more)
    else:
        facts |= {"reason": reason, "error": error or first["error"]}
        await raise_alert(connection, engine, "job_failed", facts, more=more)
    if reason != ABANDONED:  # nobody tried
        await note_failures(connection, engine, rows)


def _facts(row: Record) -> dict[str, Any]:
    return {name: row[name] for name in ("id", "kind", "owner", "subject_id")}
