"""The engine's statements, loaded once. Only the engine's own files run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asyncpg import Record

from mediamill.db.queries import Queries
from mediamill.engine.model import ClaimedJob, Moved

_FOLDER = Path(__file__).parent / "queries"

jobs = Queries(_FOLDER / "jobs.sql")
recovery = Queries(_FOLDER / "recovery.sql")
workers = Queries(_FOLDER / "workers.sql")
pools = Queries(_FOLDER / "pools.sql")
watch = Queries(_FOLDER / "watch.sql")
browse = Queries(_FOLDER / "browse.sql")
alerts = Queries(_FOLDER / "alerts.sql")

# The class of the session-level advisory locks by which workers show that they live.
WORKER_LOCKS = 0x6D6D01


def claimed_job(row: Record, pool: str, worker_id: int) -> ClaimedJob:
    """A row of claim_jobs."""
    id_, token, kind, owner, subject_id, mime_type, attempts, max_attempts, payload, checkpoint, trace = row
    return ClaimedJob(
        id_,
        token,
        worker_id,
        kind,
        pool,
        owner,
        subject_id,
        mime_type,
        attempts,
        max_attempts,
        payload,
        checkpoint,
        trace,
    )


def held_job(row: Record) -> ClaimedJob:
    """A row of the jobs table, as its holder has it."""
    same = (
        "id",
        "token",
        "worker_id",
        "kind",
        "pool",
        "owner",
        "subject_id",
        "mime_type",
        "attempts",
        "max_attempts",
        "trace",
    )
    given = {name: row[name] for name in same}
    return ClaimedJob(**given, payload_json=row["payload"], checkpoint_json=row["checkpoint"])


def moved(row: Record, **more: Any) -> Moved:
    """A row of the jobs table, as hooks get it."""
    return Moved(
        job_id=row["id"],
        kind=row["kind"],
        owner=row["owner"],
        subject_id=row["subject_id"],
        attempts=row["attempts"],
        mime_type=row["mime_type"],
        payload=json.loads(row["payload"]),
        **more,
    )


def plain(row: Record) -> dict[str, Any]:
    """A row for people and scripts: JSON columns decoded."""
    return {
        key: json.loads(value) if key in _JSON and isinstance(value, str) else value
        for key, value in row.items()
    }


_JSON = {"payload", "parts", "checkpoint", "result", "capabilities", "metadata", "stats", "data"}
