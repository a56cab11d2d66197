"""Alerts are raised in the transaction that found the cause, and wait in a table until they are sent."""

from __future__ import annotations

import json
from typing import Any, Literal

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.rules import Engine

AlertType = Literal[
    "stale_job_recovered",
    "job_max_retries_exceeded",
    "job_failed_pattern",
    "worker_startup",
    "worker_shutdown",
]
WORKER_ALERTS = ("worker_startup", "worker_shutdown")


async def raise_alert(connection: Connection, engine: Engine, type_: AlertType, data: dict[str, Any]) -> bool:
    """Raise an alert unless none is wanted or one of its type went out a short while ago."""
    if not engine.alerts_on or (type_ in WORKER_ALERTS and not engine.alert_worker_events):
        return False
    raised = await store.alerts.raise_alert.value(
        connection, type=type_, data=json.dumps(data), rate_limit_seconds=engine.alert_rate_limit_seconds
    )
    return raised is not None


async def list_alerts(connection: Connection, amount: int = 50) -> list[dict[str, Any]]:
    """Newest first; those that have arrived are kept for seven days."""
    return [store.plain(row) for row in await store.alerts.list_alerts.rows(connection, amount=amount)]


async def alert_of_failure(
    connection: Connection, engine: Engine, row: Record, *, exhausted: bool, dead: bool
) -> None:
    """After a failed attempt: the attempts are used up, or this subject fails again and again."""
    facts = {"id": row["id"], "kind": row["kind"], "owner": row["owner"], "subject_id": row["subject_id"]}
    if dead and exhausted:
        await raise_alert(
            connection, engine, "job_max_retries_exceeded", {**facts, "attempts": row["attempts"]}
        )
    if row["subject_id"] is None or not engine.alerts_on:
        return
    earlier = await store.watch.failures_of_subject.value(
        connection, kind=row["kind"], subject_id=row["subject_id"]
    )
    failures = int(earlier) + (0 if dead else row["attempts"])
    if failures >= engine.alert_pattern_failures:
        await raise_alert(connection, engine, "job_failed_pattern", {**facts, "failures": failures})
